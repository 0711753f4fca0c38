package nodelifecycle

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var now = time.Unix(10000, 0)

func node(ready corev1.ConditionStatus, taints ...corev1.Taint) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Taints: taints}}
	if ready != "" {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	}
	return n
}

func taint(key string, e corev1.TaintEffect) corev1.Taint { return corev1.Taint{Key: key, Effect: e} }

func names(list []corev1.Taint) string {
	var out []string
	for _, t := range list {
		out = append(out, strings.TrimPrefix(t.Key, "node.kubernetes.io/")+":"+string(t.Effect))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func TestTaintsFollowConditions(t *testing.T) {
	other := taint("only", corev1.TaintEffectNoSchedule)
	disk := node("True", other)
	disk.Status.Conditions = append(disk.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeDiskPressure, Status: "True"})
	cordoned := node("True")
	cordoned.Spec.Unschedulable = true
	for _, tt := range []struct {
		name   string
		node   *corev1.Node
		silent bool
		want   string
	}{
		{"ready", node("True", other, taint(corev1.TaintNodeNotReady, corev1.TaintEffectNoSchedule),
			taint(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)), false, "only:NoSchedule"},
		{"never reported", node("", taint(corev1.TaintNodeNotReady, corev1.TaintEffectNoSchedule)), false, ""},
		{"not ready", node("False", other), false, "not-ready:NoExecute not-ready:NoSchedule only:NoSchedule"},
		{"silent", node("True"), true, "unreachable:NoExecute unreachable:NoSchedule"},
		{"silent after not ready", node("False", taint(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute)), true,
			"unreachable:NoExecute unreachable:NoSchedule"},
		{"disk pressure", disk, false, "disk-pressure:NoSchedule only:NoSchedule"},
		{"cordoned", cordoned, false, "unschedulable:NoSchedule"},
		{"uncordoned", node("True", taint(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule)), false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			next := plan(tt.node, tt.silent, now)
			if got := names(next.Spec.Taints); got != tt.want {
				t.Errorf("%s: taints %q, want %q", tt.name, got, tt.want)
			}
			if again := plan(next, tt.silent, now.Add(time.Hour)); fmt.Sprint(again) != fmt.Sprint(next) {
				t.Errorf("%s: a second look changes %v to %v", tt.name, next, again)
			}
		})
	}
}

// New taints stand in the order of the conditions that they follow from, then that of a cordon, and one that drives pods out
// comes last: as a kube-controller-manager 1.36.3 wrote them.
func TestOrderOfTaints(t *testing.T) {
	n := node("False")
	n.Spec.Unschedulable = true
	for _, c := range []corev1.NodeConditionType{corev1.NodePIDPressure, corev1.NodeMemoryPressure, corev1.NodeDiskPressure} {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: c, Status: corev1.ConditionTrue})
	}
	var got []string
	for _, t := range plan(n, false, now).Spec.Taints {
		got = append(got, strings.TrimPrefix(t.Key, "node.kubernetes.io/")+":"+string(t.Effect))
	}
	const want = "not-ready:NoSchedule pid-pressure:NoSchedule memory-pressure:NoSchedule disk-pressure:NoSchedule " +
		"unschedulable:NoSchedule not-ready:NoExecute"
	if strings.Join(got, " ") != want {
		t.Errorf("%q", got)
	}
}

func TestUnknown(t *testing.T) {
	n := node("True")
	n.CreationTimestamp = metav1.Unix(5, 0)
	got := plan(n, true, now).Status.Conditions
	if len(got) != 4 {
		t.Fatalf("%d conditions", len(got))
	}
	for _, c := range got {
		reason, beat := "NodeStatusNeverUpdated", metav1.Unix(5, 0)
		if c.Type == corev1.NodeReady {
			reason, beat = "NodeStatusUnknown", metav1.Time{}
		}
		if c.Status != corev1.ConditionUnknown || c.Reason != reason || c.LastHeartbeatTime != beat || c.LastTransitionTime.Time != now {
			t.Errorf("%+v", c)
		}
	}
}

func TestLabels(t *testing.T) {
	have := map[string]string{"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "plan9", "beta.kubernetes.io/arch": "arm"}
	got := labels(have)
	if got["beta.kubernetes.io/os"] != "linux" || got["beta.kubernetes.io/arch"] != "arm" || have["beta.kubernetes.io/os"] != "plan9" {
		t.Errorf("labels %v, before %v", got, have)
	}
}

func TestPace(t *testing.T) {
	for _, tt := range []struct {
		name       string
		h          health
		everywhere bool
		want       time.Duration
	}{
		{"most are healthy", health{5, 1}, false, normalPace},
		{"few are unhealthy", health{1, 2}, false, normalPace},
		{"small zone, most unhealthy", health{4, 5}, false, 0},
		{"large zone, most unhealthy", health{40, 60}, false, slowPace},
		{"half are healthy", health{50, 50}, false, normalPace},
		{"whole zone unhealthy", health{0, 10}, false, normalPace},
		{"all zones unhealthy", health{0, 10}, true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.h.pace(tt.everywhere); got != tt.want {
				t.Errorf("%+v everywhere=%t: %v, want %v", tt.h, tt.everywhere, got, tt.want)
			}
		})
	}
}

func TestBucket(t *testing.T) {
	w := &watch{grace: time.Minute, limit: map[string]*bucket{}}
	for i, tt := range []struct {
		zone, node string
		after      time.Duration
		want       time.Duration
	}{
		{"a", "1", 0, 0}, {"a", "1", time.Second, 0}, {"a", "2", time.Second, 10 * time.Second}, {"b", "3", time.Second, 0},
		{"a", "2", 11 * time.Second, 0}, {"a", "4", 12 * time.Second, 9 * time.Second},
	} {
		t.Run(tt.zone, func(t *testing.T) {
			if got := w.pass(tt.zone, tt.node, normalPace, now.Add(tt.after)); got != tt.want {
				t.Errorf("%d: %v, want %v", i, got, tt.want)
			}
		})
	}
}

func TestSignsOfLife(t *testing.T) {
	w := &watch{grace: 10 * time.Second, seen: map[string]*sign{}}
	n := node("True")
	lease := func(sec int64) *coordinationv1.Lease {
		at := metav1.NewMicroTime(time.Unix(sec, 0))
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &at}}
	}
	if at := w.note(n, lease(1), now); at != now {
		t.Errorf("first seen at %v", at)
	}
	if at := w.note(n, lease(1), now.Add(time.Second)); at != now {
		t.Errorf("the same lease counts as a sign at %v", at)
	}
	if at := w.note(n, lease(2), now.Add(2*time.Second)); at != now.Add(2*time.Second) {
		t.Errorf("renewed: %v", at)
	}
	n.Status.Conditions[0].LastHeartbeatTime = metav1.Unix(9, 0)
	if at := w.note(n, lease(2), now.Add(3*time.Second)); at != now.Add(3*time.Second) {
		t.Errorf("a beat of the status: %v", at)
	}
}

// A node whose clock is set back goes on giving signs of life, and one that was made anew begins with a whole grace period. What somebody
// noted who looked at an older state is no sign.
func TestSignsOfLifeOfOtherTimes(t *testing.T) {
	w := &watch{grace: 10 * time.Second, seen: map[string]*sign{}}
	n := node("True")
	at := func(sec int64, after time.Duration) time.Duration {
		renewed := metav1.NewMicroTime(time.Unix(sec, 0))
		l := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}
		return w.note(n, l, now.Add(after)).Sub(now)
	}
	for _, s := range []struct {
		name        string
		renewed     int64
		after, want time.Duration
	}{
		{"first", 5000, 0, 0},
		{"an older state", 4998, time.Second, 0},
		{"set back", 1000, 2 * time.Second, 2 * time.Second},
		{"and on", 1001, 3 * time.Second, 3 * time.Second},
		{"silent", 1001, 4 * time.Second, 3 * time.Second},
	} {
		t.Run(s.name, func(t *testing.T) {
			if got := at(s.renewed, s.after); got != s.want {
				t.Errorf("last heard after %v, want %v", got, s.want)
			}
		})
	}
	n.UID = "first"
	w.meet(n)
	n.UID = "second"
	if got := at(1001, time.Hour); got != time.Hour {
		t.Errorf("another node of the name was last heard after %v", got)
	}
}

// Pods of a lost node are not ready, for the reason that they gave themselves.
func TestUnready(t *testing.T) {
	at := time.Unix(10000, 0)
	p := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, Reason: "Asked"}}}}
	next := unready(p, at)
	if c := next.Status.Conditions[1]; c.Status != corev1.ConditionFalse || c.Reason != "Asked" || !c.LastTransitionTime.Time.Equal(at) {
		t.Errorf("%+v", c)
	}
	if next.Status.Conditions[0].Status != corev1.ConditionTrue {
		t.Error("it is scheduled all the same")
	}
	for _, said := range []corev1.NodeCondition{{Status: corev1.ConditionFalse, Reason: "KubeletNotReady"},
		{Status: corev1.ConditionUnknown, Reason: "Mine"},
		{Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown"}} {
		said.Type = corev1.NodeReady
		n := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{said}}}
		if got := misleads(p, n); got != (said.Reason == "NodeStatusUnknown") {
			t.Errorf("of a node that is %s because of %s: %v", said.Status, said.Reason, got)
		}
	}
}
