package tainteviction

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/resource"
)

var now = time.Unix(10000, 0)

func tol(key string, sec int64) corev1.Toleration {
	t := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	if sec >= 0 {
		t.TolerationSeconds = &sec
	}
	return t
}

func TestPlan(t *testing.T) {
	plain := []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}
	added := []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute, TimeAdded: &metav1.Time{Time: now.Add(-3 * time.Second)}}}
	two := append(plain[:1:1], corev1.Taint{Key: "l", Effect: corev1.TaintEffectNoExecute})
	ago := func(d time.Duration) map[types.UID]time.Time { return map[types.UID]time.Time{"u": now.Add(-d)} }
	for _, tt := range []struct {
		name   string
		taints []corev1.Taint
		tols   []corev1.Toleration
		was    map[types.UID]time.Time
		want   string
		again  time.Duration
	}{
		{"no taint", nil, nil, nil, "stay", 0},
		{"not tolerated", plain, nil, nil, "remove", 0},
		{"tolerated", plain, []corev1.Toleration{tol("k", -1)}, nil, "stay", 0},
		{"tolerated for a while", plain, []corev1.Toleration{tol("k", 5)}, nil, "wait", 5 * time.Second},
		{"while waiting", plain, []corev1.Toleration{tol("k", 5)}, ago(2 * time.Second), "wait", 3 * time.Second},
		{"waited", plain, []corev1.Toleration{tol("k", 5)}, ago(5 * time.Second), "remove", 0},
		{"the taint is newer than the wait", added, []corev1.Toleration{tol("k", 5)}, ago(time.Hour), "wait", 2 * time.Second},
		{"for ever, as a number", plain, []corev1.Toleration{tol("k", 9_999_999_999)}, nil, "wait", resource.Seconds(1<<63 - 1)},
		{"zero seconds", plain, []corev1.Toleration{tol("k", 0)}, nil, "remove", 0},
		{"one of two", two, []corev1.Toleration{tol("k", -1)}, nil, "remove", 0},
		{"both, one for a while", two, []corev1.Toleration{tol("k", -1), tol("l", 7)}, nil, "wait", 7 * time.Second},
		{"the taint went away", nil, nil, ago(time.Second), "spared", 0},
		{"everything tolerated", two, []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, nil, "stay", 0},
		{"another value", []corev1.Taint{{Key: "k", Value: "1", Effect: corev1.TaintEffectNoExecute}},
			[]corev1.Toleration{{Key: "k", Value: "2"}}, nil, "remove", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Spec: corev1.PodSpec{Tolerations: tt.tols}}
			todo := plan(tt.taints, []*corev1.Pod{p}, tt.was, now)
			got := "stay"
			switch {
			case len(todo.remove) > 0:
				got = "remove"
			case len(todo.spared) > 0:
				got = "spared"
			case len(todo.since) > 0:
				got = "wait"
			}
			if got != tt.want || todo.again != tt.again {
				t.Errorf("%s: %s for %v, want %s for %v", tt.name, got, todo.again, tt.want, tt.again)
			}
		})
	}
	gone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", DeletionTimestamp: &metav1.Time{Time: now}}}
	if todo := plan(plain, []*corev1.Pod{gone}, nil, now); len(todo.remove)+len(todo.since) > 0 {
		t.Errorf("a pod on its way out: %+v", todo)
	}
}
