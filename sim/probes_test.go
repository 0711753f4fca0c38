package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestHealth(t *testing.T) {
	probe := func(delay, period, failures, successes int32) *corev1.Probe {
		return &corev1.Probe{InitialDelaySeconds: delay, PeriodSeconds: period, FailureThreshold: failures, SuccessThreshold: successes}
	}
	for _, x := range []struct {
		name                         string
		startup, readiness, liveness *corev1.Probe
		fail                         string
		want                         string // what changes when, in seconds
	}{
		{name: "none", want: "0 started ready"},
		{name: "readiness", readiness: probe(3, 10, 3, 1), want: "0 started, 3 started ready"},
		{name: "readiness that must pass twice", readiness: probe(3, 10, 3, 2), want: "0 started, 13 started ready"},
		{name: "startup before readiness", startup: probe(5, 10, 3, 1), readiness: probe(2, 10, 3, 1), want: "0, 5 started ready"},
		{name: "startup fails", startup: probe(5, 10, 3, 1), fail: "startup", want: "0, 25 killed by startup"},
		{name: "liveness fails", liveness: probe(5, 10, 3, 1), fail: "liveness", want: "0 started ready, 25 killed by liveness"},
		{name: "liveness fails later", liveness: probe(5, 10, 3, 1), fail: "liveness=30s", want: "0 started ready, 50 killed by liveness"},
		{name: "liveness of another", liveness: probe(5, 10, 3, 1), fail: "liveness/other", want: "0 started ready"},
		{name: "readiness fails", readiness: probe(0, 10, 3, 1), fail: "readiness/c", want: "0 started"},
		{name: "readiness fails later", readiness: probe(0, 10, 2, 1), fail: "liveness, readiness=20s", want: "0 started ready, 30 started"},
		{name: "what has no probe can't fail one", fail: "liveness,readiness,startup", want: "0 started ready"},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := &corev1.Container{Name: "c", StartupProbe: x.startup, ReadinessProbe: x.readiness, LivenessProbe: x.liveness}
			f := fate{failing: failings(x.fail)}
			var told []string
			for at := time.Duration(0); ; {
				h := f.healthOf(c, at)
				text := fmt.Sprint(at.Seconds())
				for _, w := range []struct {
					yes  bool
					word string
				}{{h.started && h.killed == "", " started"}, {h.ready, " ready"}, {h.killed != "", " killed by " + h.killed}} {
					if w.yes {
						text += w.word
					}
				}
				told = append(told, text)
				if h.next == 0 || h.killed != "" {
					break
				}
				at += h.next
			}
			if got := strings.Join(told, ", "); got != x.want {
				t.Errorf("%s: %s; want %s", x.name, got, x.want)
			}
		})
	}
}

// TestSayings: what a node says of a pod is what a node agent does, and once.
func TestSayings(t *testing.T) {
	for _, x := range []struct {
		name, annotations string
		edit              func(p *corev1.Pod)
		lasts             int
		want              []string
	}{
		{name: "plain", lasts: 3, want: []string{`Normal Pulled Container image "i:1" already present on machine and can be accessed by the pod`,
			"Normal Created Container created", "Normal Started Container started"}},
		{name: "pull", annotations: "pull=2s", lasts: 3, want: []string{`Normal Pulling Pulling image "i:1"`,
			`Normal Pulled Successfully pulled image "i:1" in 2s (2s including waiting). Image size: 10485760 bytes.`,
			"Normal Created Container created", "Normal Started Container started"}},
		{name: "no image", annotations: "pull-error=*", lasts: 3, want: []string{`Normal Pulling Pulling image "i:1"`,
			`Warning Failed Failed to pull image "i:1": not found in the simulation`, "Warning Failed Error: ErrImagePull",
			`Normal BackOff Back-off pulling image "i:1": ErrImagePull: not found in the simulation`, "Warning Failed Error: ImagePullBackOff"}},
		{name: "liveness", annotations: "probe-fail=liveness", lasts: 3, edit: func(p *corev1.Pod) {
			p.Spec.Containers[0].LivenessProbe = &corev1.Probe{InitialDelaySeconds: 1, PeriodSeconds: 1, FailureThreshold: 1}
		}, want: []string{`Normal Pulled Container image "i:1" already present on machine and can be accessed by the pod`,
			"Normal Created Container created", "Normal Started Container started",
			"Warning Unhealthy Liveness probe failed: simulated failure",
			"Normal Killing Container c failed liveness probe, will be restarted",
			`Normal Pulled Container image "i:1" already present on machine and can be accessed by the pod`,
			"Normal Created Container created", "Normal Started Container started",
			"Warning Unhealthy Liveness probe failed: simulated failure",
			"Normal Killing Container c failed liveness probe, will be restarted",
			"Warning BackOff Back-off restarting failed container c in pod p_ns(u)"}},
		{name: "deadline", annotations: "", lasts: 4, edit: func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(2)) }, want: []string{
			`Normal Pulled Container image "i:1" already present on machine and can be accessed by the pod`,
			"Normal Created Container created", "Normal Started Container started",
			"Normal DeadlineExceeded Pod was active on the node longer than the specified deadline"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u", Annotations: map[string]string{}},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{{Name: "c", Image: "i:1"}}},
				Status: corev1.PodStatus{Phase: corev1.PodPending}}
			for _, kv := range strings.Fields(x.annotations) {
				k, v, _ := strings.Cut(kv, "=")
				p.Annotations[prefix+k] = v
			}
			if x.edit != nil {
				x.edit(p)
			}
			var got []string
			for at := range x.lasts * 2 {
				now := metav1.NewTime(time.Unix(1000, 0).Add(time.Duration(at) * time.Second / 2))
				st, _, said := live(p, fateOf(p, nil), now, place{ips: func() []string { return []string{"10.128.0.1"} }})
				p.Status = *st
				for _, s := range said {
					got = append(got, s.typ+" "+s.reason+" "+s.text)
				}
			}
			if a, b := strings.Join(got, "\n"), strings.Join(x.want, "\n"); a != b {
				t.Errorf("%s:\n%s\nwant\n%s", x.name, a, b)
			}
			if x.name == "deadline" && (p.Status.Phase != corev1.PodFailed || p.Status.Reason != "DeadlineExceeded") {
				t.Errorf("after its deadline: %+v", p.Status)
			}
		})
	}
}
