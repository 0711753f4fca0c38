package daemonset

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kloop-dev/kloop/controllers/internal/revisions"
)

var now = time.Unix(10000, 0)

// pod makes a pod on a node from "new", "old", with "-" when it is not ready, "x" when it failed; "!" where none should run.
func pod(node, what string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: node + what, Labels: map[string]string{revisions.Hash: what[:3]},
		CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))},
		Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue,
				LastTransitionTime: metav1.NewTime(now.Add(-time.Minute))}}}}
	switch strings.TrimSuffix(what[3:], "!") {
	case "-":
		p.Status.Conditions = nil
	case "x":
		p.Status.Phase = corev1.PodFailed
	case "d":
		p.DeletionTimestamp = &metav1.Time{Time: now}
	}
	return p
}

func TestPlan(t *testing.T) {
	two, one, none := intstr.FromInt32(2), intstr.FromInt32(1), intstr.FromInt32(0)
	plain := appsv1.RollingUpdateDaemonSet{MaxUnavailable: &one, MaxSurge: &none}
	surge := appsv1.RollingUpdateDaemonSet{MaxUnavailable: &none, MaxSurge: &two}
	for _, tt := range []struct {
		name   string
		roll   appsv1.RollingUpdateDaemonSet
		pods   []string // of the nodes 0, 1, 2; several with spaces between
		create string
		remove string
	}{
		{"none yet", plain, []string{"", "", ""}, "0 1 2 ", ""},
		{"all there", plain, []string{"new", "new", "new"}, "", ""},
		{"one goes", plain, []string{"newd", "new", "new"}, "", ""},
		{"two on a node", plain, []string{"new new-", "new", "new"}, "", "0new- "},
		{"one failed", plain, []string{"newx", "new", "new"}, "", "0newx "},
		{"update one", plain, []string{"old", "old", "old"}, "", "0old "},
		{"update the next", plain, []string{"new", "old", "old"}, "", "1old "},
		{"update waits", plain, []string{"new-", "old", "old"}, "", ""},
		{"update takes the sick ones at once", plain, []string{"old-", "old-", "old"}, "", "0old- 1old- "},
		{"surge", surge, []string{"old", "old", "old"}, "0 1 ", ""},
		{"surge waits", surge, []string{"old new-", "old new-", "old"}, "", ""},
		{"update where none should run", plain, []string{"new", "new", "old!"}, "", "2old! "},
		{"one at a time there too", plain, []string{"new-", "new", "old!"}, "", ""},
		{"surge where none should run", surge, []string{"new", "new", "old!"}, "", "2old! "},
		{"surge keeps it while one is missing", surge, []string{"new-", "new", "old!"}, "", ""},
		{"surge takes a sick one there", surge, []string{"new-", "new", "old-!"}, "", "2old-! "},
		{"surge lands", surge, []string{"old new", "old new-", "old"}, "2 ", "0old "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ds := &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
				Type: appsv1.RollingUpdateDaemonSetStrategyType, RollingUpdate: &tt.roll}}}
			var nodes []*corev1.Node
			var owned []*corev1.Pod
			for i, list := range tt.pods {
				node := fmt.Sprint(i)
				nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
				if strings.HasSuffix(list, "!") {
					nodes[i].Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
				}
				for len(list) > 0 {
					var what string
					n, _ := fmt.Sscan(list, &what)
					if n == 0 {
						break
					}
					owned = append(owned, pod(node, what))
					list = list[min(len(what)+1, len(list)):]
				}
			}
			todo := plan(observe(ds, "new", nodes, owned, now))
			create, remove := "", ""
			for _, n := range todo.create {
				create += n + " "
			}
			for _, p := range todo.remove {
				remove += p.Name + " "
			}
			if create != tt.create || remove != tt.remove {
				t.Errorf("%s: create %q, remove %q; want %q, %q", tt.name, create, remove, tt.create, tt.remove)
			}
		})
	}
}

// A pod on a node that is gone belongs to whoever cleans up after nodes; one that only waits for such a node is of no use.
func TestGoneNode(t *testing.T) {
	ran, waits := pod("x", "new"), pod("y", "new")
	waits.Spec.NodeName = ""
	pin(&waits.Spec, "y")
	got := plan(observe(&appsv1.DaemonSet{}, "new", nil, []*corev1.Pod{ran, waits}, now))
	if len(got.remove) != 1 || got.remove[0] != waits {
		t.Errorf("removes %v", got.remove)
	}
}

func TestNewest(t *testing.T) {
	for _, tt := range []struct {
		hash, generation, annotation string
		want                         bool
	}{{"new", "", "", true}, {"old", "", "", false}, {"old", "1", "2", false}, {"old", "2", "2", true}} {
		t.Run(tt.hash, func(t *testing.T) {
			w := world{hash: "new", ds: &appsv1.DaemonSet{}}
			w.ds.Annotations = map[string]string{appsv1.DeprecatedTemplateGeneration: tt.annotation}
			p := pod("n", tt.hash)
			p.Labels[generationLabel] = tt.generation
			if got := w.newest(p); got != tt.want {
				t.Errorf("%+v: %v", tt, got)
			}
		})
	}
}

func TestMeant(t *testing.T) {
	for _, tt := range []struct {
		name      string
		taint     corev1.Taint
		selector  map[string]string
		run, stay bool
	}{
		{"plain", corev1.Taint{}, nil, true, true},
		{"selected", corev1.Taint{}, map[string]string{"a": "b"}, true, true},
		{"not selected", corev1.Taint{}, map[string]string{"a": "c"}, false, false},
		{"no schedule", corev1.Taint{Key: "k", Effect: corev1.TaintEffectNoSchedule}, nil, false, true},
		{"no execute", corev1.Taint{Key: "k", Effect: corev1.TaintEffectNoExecute}, nil, false, false},
		{"lost", corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}, nil, true, true},
		{"cordoned", corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}, nil, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "b"}}}
			if tt.taint.Key != "" {
				n.Spec.Taints = []corev1.Taint{tt.taint}
			}
			ds := &appsv1.DaemonSet{}
			ds.Spec.Template.Spec.NodeSelector = tt.selector
			if run, stay := meant(ds, n); run != tt.run || stay != tt.stay {
				t.Errorf("%s: run %t, stay %t", tt.name, run, stay)
			}
		})
	}
}
