package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// story lives a pod's life as the loop would, and tells every status that it had: when, and what of it matters.
func story(p *corev1.Pod, n *corev1.Node, lasts time.Duration, change func(at time.Duration, p *corev1.Pod)) string {
	start := time.Unix(1000, 0)
	var told []string
	for at := time.Duration(0); at <= lasts; {
		if change != nil {
			change(at, p)
		}
		st, again, _ := live(p, fateOf(p, n), metav1.NewTime(start.Add(at)), place{ips: func() []string { return []string{"10.128.0.1"} }})
		p.Status = *st
		now := tell(st)
		if len(told) == 0 || !strings.HasSuffix(told[len(told)-1], ": "+now) {
			told = append(told, fmt.Sprintf("%s: %s", at.Round(time.Second), now))
		}
		step := time.Second
		if again > 0 {
			step = min(again, step)
		}
		at += max(step, 10*time.Millisecond)
	}
	return strings.Join(told, "\n")
}

func tell(st *corev1.PodStatus) string {
	words := []string{string(st.Phase)}
	for _, list := range [][]corev1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses} {
		for _, s := range list {
			w := s.Name + "="
			switch {
			case s.State.Waiting != nil:
				w += s.State.Waiting.Reason
			case s.State.Terminated != nil:
				w += fmt.Sprintf("ended %d", s.State.Terminated.ExitCode)
			case s.State.Running != nil:
				w += "runs"
			}
			if s.RestartCount > 0 {
				w += fmt.Sprintf(" #%d", s.RestartCount)
			}
			words = append(words, w)
		}
	}
	for _, c := range st.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			words = append(words, "Ready")
		}
	}
	return strings.Join(words, ", ")
}

func TestLives(t *testing.T) {
	sidecar := corev1.ContainerRestartPolicyAlways
	for _, x := range []struct {
		name        string
		annotations string // "key=value key=value"
		edit        func(p *corev1.Pod)
		node        map[string]string
		lasts       time.Duration
		change      func(at time.Duration, p *corev1.Pod)
		want        string
	}{
		{name: "plain", lasts: 3 * time.Second, want: "0s: Running, c=runs, Ready"},
		{name: "held", annotations: "hold=", lasts: 3 * time.Second, want: "0s: Pending"},
		{name: "never ready", annotations: "unready=", lasts: 3 * time.Second, want: "0s: Running, c=runs"},
		{name: "not ready for a while", lasts: 9 * time.Second, change: func(at time.Duration, p *corev1.Pod) {
			delete(p.Annotations, Unready)
			if at >= 3*time.Second && at < 6*time.Second {
				p.Annotations[Unready] = ""
			}
		}, want: "0s: Running, c=runs, Ready\n3s: Running, c=runs\n6s: Running, c=runs, Ready"},
		{name: "slow image, slow start", annotations: "pull=4s ready=2s", lasts: 9 * time.Second,
			want: "0s: Pending, c=ContainerCreating\n4s: Running, c=runs\n6s: Running, c=runs, Ready"},
		{name: "slow node", node: map[string]string{Pull: "2s", Exit: "3"}, lasts: 5 * time.Second,
			want: "0s: Pending, c=ContainerCreating\n2s: Running, c=runs, Ready"},
		{name: "probe", edit: func(p *corev1.Pod) { p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{InitialDelaySeconds: 3} },
			lasts: 5 * time.Second,
			want:  "0s: Running, c=runs\n3s: Running, c=runs, Ready"},
		{name: "gate", edit: func(p *corev1.Pod) { p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "g"}} },
			lasts: 5 * time.Second,
			change: func(at time.Duration, p *corev1.Pod) {
				if at >= 2*time.Second && len(p.Status.Conditions) == 3 {
					p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: "g", Status: corev1.ConditionTrue})
				}
			}, want: "0s: Running, c=runs\n2s: Running, c=runs, Ready"},
		{name: "image that is not there", annotations: "pull-error=i:1", lasts: 40 * time.Second, change: func(at time.Duration, p *corev1.Pod) {
			if at > 15*time.Second {
				delete(p.Annotations, PullError)
			}
		},
			want: "0s: Pending, c=ErrImagePull\n1s: Pending, c=ImagePullBackOff\n10s: Pending, c=ErrImagePull\n11s: Pending, c=ImagePullBackOff\n" +
				"30s: Running, c=runs, Ready"},
		{name: "exit", annotations: "exit=0", lasts: 2 * time.Second, want: "0s: Running, c=runs, Ready\n0s: Succeeded, c=ended 0"},
		{name: "exit later", annotations: "exit=7 run=3s", lasts: 5 * time.Second, want: "0s: Running, c=runs, Ready\n3s: Failed, c=ended 7"},
		{name: "job", edit: ownedByJob, lasts: 2 * time.Second, want: "0s: Running, c=runs, Ready\n0s: Succeeded, c=ended 0"},
		{name: "job that goes on", annotations: "keep=", edit: ownedByJob, lasts: 2 * time.Second, want: "0s: Running, c=runs, Ready"},
		{name: "crash loop", annotations: "crash=1 run=2s", lasts: 50 * time.Second,
			want: "0s: Running, c=runs, Ready\n2s: Running, c=runs #1, Ready\n" +
				"4s: Running, c=CrashLoopBackOff #1\n14s: Running, c=runs #2, Ready\n16s: Running, c=CrashLoopBackOff #2\n" +
				"36s: Running, c=runs #3, Ready\n" +
				"38s: Running, c=CrashLoopBackOff #3"},
		{name: "one crash", annotations: "crash=1x1 run=2s", lasts: 9 * time.Second,
			want: "0s: Running, c=runs, Ready\n2s: Running, c=runs #1, Ready"},
		{name: "crash for good", annotations: "crash=5", edit: func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever },
			lasts: 2 * time.Second,
			want:  "0s: Running, c=runs, Ready\n0s: Failed, c=ended 5"},
		{name: "job that fails twice", annotations: "crash=1x2 run=1s", edit: func(p *corev1.Pod) {
			ownedByJob(p)
			p.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
		}, lasts: 15 * time.Second, want: "0s: Running, c=runs, Ready\n1s: Running, c=runs #1, Ready\n2s: Running, c=CrashLoopBackOff #1\n" +
			"12s: Running, c=runs #2, Ready\n13s: Succeeded, c=ended 0 #2"},
		{name: "init and sidecar", annotations: "init=2s", edit: func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "a"}, {Name: "s", RestartPolicy: &sidecar}, {Name: "b"}}
		}, lasts: 6 * time.Second, want: "0s: Pending, a=runs, s=PodInitializing, b=PodInitializing, c=PodInitializing\n" +
			"2s: Pending, a=ended 0, s=runs, b=runs, c=PodInitializing\n4s: Running, a=ended 0, s=runs, b=ended 0, c=runs, Ready"},
		{name: "init fails", annotations: "init-exit=2", edit: func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "a"}}
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
		}, lasts: time.Second, want: "0s: Failed, a=ended 2, c=PodInitializing"},
		{name: "init fails and is tried again", annotations: "init-exit=2 init=1s", edit: func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "a"}}
		}, lasts: 5 * time.Second, want: "0s: Pending, a=runs, c=PodInitializing\n1s: Pending, a=runs #1, c=PodInitializing\n" +
			"2s: Pending, a=CrashLoopBackOff #1, c=PodInitializing"},
	} {
		t.Run(x.name, func(t *testing.T) {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{}}, Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{{Name: "c", Image: "i:1"}}},
				Status: corev1.PodStatus{Phase: corev1.PodPending}}
			for _, kv := range strings.Fields(x.annotations) {
				k, v, _ := strings.Cut(kv, "=")
				p.Annotations[prefix+k] = v
			}
			if x.edit != nil {
				x.edit(p)
			}
			if got := story(p, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: x.node}}, x.lasts, x.change); got != x.want {
				t.Errorf("got\n%s\nwant\n%s", got, x.want)
			}
		})
	}
}

func ownedByJob(p *corev1.Pod) {
	p.Spec.RestartPolicy = corev1.RestartPolicyNever
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Controller: new(true)}}
}

// TestSteady: looking again at a life changes nothing.
func TestSteady(t *testing.T) {
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
	now := metav1.NewTime(time.Unix(1000, 0))
	st, _, _ := live(p, fate{}, now, place{ips: func() []string { return []string{"10.128.0.1"} }})
	p.Status = *st
	again, next, _ := live(p, fate{}, metav1.NewTime(now.Add(time.Hour)), place{})
	if next != 0 || tell(again) != tell(st) || !again.Conditions[0].LastTransitionTime.Equal(&now) {
		t.Errorf("%+v, again in %s", again, next)
	}
}

// A pod that is deleted before it ran has failed, and so have its containers, as far as it had come.
func TestKilledBeforeItRan(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	waits := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	for _, x := range []struct {
		name       string
		side, init corev1.ContainerState
		want       string
	}{
		{"before the sidecar ran", waits, waits, "Failed, side=ended 137, init=PodInitializing, c=PodInitializing"},
		{"before the init container ran", runs, waits, "Failed, side=ended 137, init=ended 137, c=PodInitializing"},
		{"while it ran", runs, runs, "Failed, side=ended 137, init=ended 137, c=PodInitializing"},
		{"after it ran", runs, ended, "Failed, side=ended 137, init=ended 0, c=ended 137"},
	} {
		t.Run(x.name, func(t *testing.T) {
			p := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Name: "side", RestartPolicy: &always}, {Name: "init"}}},
				Status: corev1.PodStatus{Phase: corev1.PodPending,
					InitContainerStatuses: []corev1.ContainerStatus{{Name: "side", State: x.side}, {Name: "init", State: x.init}},
					ContainerStatuses:     []corev1.ContainerStatus{{Name: "c", State: waits}}}}
			if got := tell(killed(p, metav1.NewTime(time.Unix(1000, 0)))); got != x.want {
				t.Errorf("%s, want %s", got, x.want)
			}
		})
	}
}

// A pod that is to stay as it is does: it neither starts, nor restarts, nor becomes ready.
func TestStill(t *testing.T) {
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning,
			ContainerStatuses: []corev1.ContainerStatus{{Name: "c", RestartCount: 57,
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}}}
	p.Annotations = map[string]string{Still: "yes"}
	if got, want := story(p, nil, 20*time.Minute, nil), "0s: Running, c=CrashLoopBackOff #57"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	delete(p.Annotations, Still)
	if got := story(p, nil, 20*time.Minute, nil); !strings.HasSuffix(got, "Ready") {
		t.Errorf("without the annotation: %s", got)
	}
}
