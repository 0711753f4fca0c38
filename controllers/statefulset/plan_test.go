package statefulset

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kloop-dev/kloop/controllers/internal/revisions"
	"github.com/kloop-dev/kloop/loop"
)

var now = time.Unix(10000, 0)

// pod makes a pod from "0new": its ordinal and its revision, then - when it is not ready, x when it failed, d when it goes,
// y when it is ready only now.
func pod(t *testing.T, text string) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "s-" + text[:1], Labels: map[string]string{revisions.Hash: text[1:4],
		appsv1.StatefulSetPodNameLabel: "s-" + text[:1]}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady,
			Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Minute))}}}}
	switch text[4:] {
	case "-":
		p.Status.Conditions = nil
	case "x":
		p.Status.Phase = corev1.PodFailed
	case "y":
		p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now)
	case "d":
		p.DeletionTimestamp = &metav1.Time{Time: now}
	}
	return p
}

func (t todo) those(do verb) (list []int) {
	for _, one := range t.replicas {
		if one.do == do {
			list = append(list, one.n)
		}
	}
	return list
}

func TestPlan(t *testing.T) {
	one, two, half := int32(1), intstr.FromInt32(2), intstr.FromString("50%")
	slow := func(s *appsv1.StatefulSetSpec) { s.MinReadySeconds = 10 }
	parallel := func(s *appsv1.StatefulSetSpec) { s.PodManagementPolicy = appsv1.ParallelPodManagement }
	bounded := func(s *appsv1.StatefulSetSpec) {
		s.PodManagementPolicy = appsv1.ParallelPodManagement
		s.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{MaxUnavailable: &two}
	}
	parted := func(s *appsv1.StatefulSetSpec) {
		s.PodManagementPolicy = appsv1.ParallelPodManagement
		s.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: &one}
	}
	onDelete := func(s *appsv1.StatefulSetSpec) { s.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType }
	rolling := func(r appsv1.RollingUpdateStatefulSetStrategy) func(*appsv1.StatefulSetSpec) {
		return func(s *appsv1.StatefulSetSpec) { s.UpdateStrategy.RollingUpdate = &r }
	}
	for _, tt := range []struct {
		name   string
		size   int32
		edit   func(*appsv1.StatefulSetSpec)
		pods   string
		create []int
		remove string
	}{
		{"the first", 3, nil, "", []int{0}, ""},
		{"waits for it", 3, nil, "0new-", nil, ""},
		{"the second", 3, nil, "0new", []int{1}, ""},
		{"all at once", 3, parallel, "1new-", []int{0, 2}, ""},
		{"a gap", 3, nil, "0new 2new", []int{1}, ""},
		{"one failed", 2, nil, "0newx 1new", nil, "s-0"},
		{"one goes", 2, nil, "0newd 1new", nil, ""},
		{"shrink from the top", 1, nil, "0new 1new 2new", nil, "s-2"},
		{"shrink waits", 1, nil, "0new 1new 2newd", nil, ""},
		{"shrink waits for a sick one below", 1, nil, "0new 1new- 2new-", nil, ""},
		{"shrink waits for one that is ready too short", 1, slow, "0new 1newy 2newy", nil, ""},
		{"shrink all at once", 1, parallel, "0new 1new- 2new-", nil, "s-2 s-1"},
		{"update from the top", 3, nil, "0old 1old 2old", nil, "s-2"},
		{"update waits", 3, nil, "0old 1old 2new-", nil, ""},
		{"update goes on", 3, nil, "0old 1old 2new", nil, "s-1"},
		{"update stops at the partition", 3, rolling(appsv1.RollingUpdateStatefulSetStrategy{Partition: &one}), "0old 1new 2new", nil, ""},
		{"update two", 3, rolling(appsv1.RollingUpdateStatefulSetStrategy{MaxUnavailable: &two}), "0old 1old 2old", nil, "s-2 s-1"},
		{"half of three, rounded down", 3, rolling(appsv1.RollingUpdateStatefulSetStrategy{MaxUnavailable: &half}), "0old 1old 2old", nil, "s-2"},
		{"update on delete", 3, onDelete, "0old 1old 2old", nil, ""},
		{"update at once, sick ones first and all of them", 4, parallel, "0old- 1old- 2old 3old", nil, "s-1 s-0"},
		{"update at once, with room beside sick ones", 4, bounded, "0old 1old- 2old 3old", nil, "s-1 s-3"},
		{"update at once waits for a sick one below the partition", 3, parted, "0old- 1old 2old", nil, ""},
		{"update at once waits for new ones", 3, parallel, "0old 1new- 2old", nil, ""},
		{"update at once goes on", 3, parallel, "0old 1old 2new", nil, "s-1"},
		{"update at once, one failed", 3, parallel, "0old 1old 2oldx", nil, "s-2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: appsv1.StatefulSetSpec{Replicas: &tt.size}}
			if tt.edit != nil {
				tt.edit(&s.Spec)
			}
			var owned []*corev1.Pod
			for _, text := range strings.Fields(tt.pods) {
				owned = append(owned, pod(t, text))
			}
			w := observe(s, owned, "new", now)
			w.counts = true
			todo := plan(w)
			var removed []string
			for _, n := range todo.those(replace) {
				removed = append(removed, fmt.Sprint("s-", n))
			}
			for _, p := range todo.remove {
				removed = append(removed, p.Name)
			}
			if got := todo.those(create); !slices.Equal(got, tt.create) || strings.Join(removed, " ") != tt.remove {
				t.Errorf("%s: create %v, remove %v; want %v, %s", tt.name, got, removed, tt.create, tt.remove)
			}
		})
	}
}

// A pod that lost its name, or was adopted without, gets it when its turn comes.
// Somebody asks for two billion pods at once: as many steps are planned as one pass makes, and the next pass goes on.
func TestHugeSet(t *testing.T) {
	huge := int32(1<<31 - 1)
	s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: appsv1.StatefulSetSpec{Replicas: &huge,
		PodManagementPolicy: appsv1.ParallelPodManagement}}
	if todo := plan(observe(s, nil, "new", now)); len(todo.replicas) != burst || todo.again != loop.Now {
		t.Errorf("%d steps, again after %v", len(todo.replicas), todo.again)
	}
}

func TestSettle(t *testing.T) {
	for _, tt := range []struct {
		policy appsv1.PodManagementPolicyType
		pods   string
		want   []int
	}{{"", "0new 1new", []int{0, 1}}, {"", "0new- 1new", nil}, {appsv1.ParallelPodManagement, "0new- 1new-", []int{0, 1}}} {
		s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(2)),
			PodManagementPolicy: tt.policy}}
		var owned []*corev1.Pod
		for _, text := range strings.Fields(tt.pods) {
			owned = append(owned, pod(t, text))
		}
		if got := plan(observe(s, owned, "new", now)).those(settle); !slices.Equal(got, tt.want) {
			t.Errorf("%s %s: %v, want %v", tt.policy, tt.pods, got, tt.want)
		}
	}
}

func TestRevisionOf(t *testing.T) {
	roll := appsv1.RollingUpdateStatefulSetStrategyType
	for _, tt := range []struct {
		name     string
		strategy appsv1.StatefulSetUpdateStrategy
		current  int32
		want     string // revisions of the ordinals 0 to 2
	}{
		{"no partition", appsv1.StatefulSetUpdateStrategy{Type: roll,
			RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32)}}, 2, "new new new"},
		{"a partition", appsv1.StatefulSetUpdateStrategy{Type: roll,
			RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32(1))}}, 2, "old new new"},
		{"nothing said", appsv1.StatefulSetUpdateStrategy{Type: roll}, 2, "old old new"},
		{"on delete", appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}, 3, "new new new"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{UpdateStrategy: tt.strategy},
				Status: appsv1.StatefulSetStatus{CurrentRevision: "old", CurrentReplicas: tt.current}}
			w := observe(s, nil, "new", now)
			if got := w.revisionOf(0) + " " + w.revisionOf(1) + " " + w.revisionOf(2); got != tt.want {
				t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
			}
		})
	}
}

func TestOwners(t *testing.T) {
	ref := func(kind, name, uid string, controller bool) metav1.OwnerReference {
		version := map[string]string{"StatefulSet": "apps/v1", "Pod": "v1"}[kind]
		return metav1.OwnerReference{APIVersion: version, Kind: kind, Name: name, UID: types.UID(uid), Controller: &controller}
	}
	refs := func(list ...metav1.OwnerReference) []metav1.OwnerReference { return list }
	other, controller := ref("X", "x", "other", false), ref("X", "x", "other", true)
	keep, remove := appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	for _, tt := range []struct {
		name          string
		have          []metav1.OwnerReference
		kept          bool
		deleted, down appsv1.PersistentVolumeClaimRetentionPolicyType
		want          string
		same          bool
	}{
		{"stays", nil, true, keep, keep, "", true},
		{"goes with the set", nil, true, remove, keep, "set*", false},
		{"goes with its place", nil, false, remove, remove, "pod*", false},
		{"stays after all", refs(ref("StatefulSet", "s", "set", true)), true, keep, keep, "", false},
		{"is needed again", refs(ref("Pod", "s-0", "pod", true)), true, keep, remove, "", false},
		{"another owner", refs(other), true, remove, keep, "other set*", false},
		{"in another order", refs(ref("StatefulSet", "s", "set", true), other), true, remove, keep, "other set*", true},
		{"no controller", refs(ref("StatefulSet", "s", "set", false)), true, remove, keep, "set*", false},
		{"another controller", refs(controller, ref("StatefulSet", "s", "set", false)), true, remove, keep, "other*", false},
		{"another controller of what stays", refs(controller), true, keep, keep, "other*", true},
		{"an earlier set", refs(ref("StatefulSet", "s", "old", false)), true, remove, keep, "old", true},
		{"an earlier pod", refs(ref("Pod", "s-0", "old", true)), true, keep, keep, "old*", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := actor{s: &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "s", UID: "set"}, Spec: appsv1.StatefulSetSpec{
				PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: tt.deleted,
					WhenScaled: tt.down}}}}
			got, _ := a.owners(tt.have, tt.kept, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "s-0", UID: "pod"}})
			var list []string
			for _, r := range got {
				star := ""
				if controls(r) {
					star = "*"
				}
				list = append(list, string(r.UID)+star)
			}
			if text := strings.Join(list, " "); text != tt.want {
				t.Errorf("%s: %q, want %q", tt.name, text, tt.want)
			}
			if same := sameOwners(tt.have, got); same != tt.same {
				t.Errorf("%s: nothing to write: %v", tt.name, same)
			}
		})
	}
}

func TestOrdinal(t *testing.T) {
	s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
	for name, want := range map[string]int{"s-0": 0, "s-12": 12, "s-01": -1, "s-": -1, "t-1": -1, "s-x": -1, "s--1": -1} {
		t.Run(name, func(t *testing.T) {
			if got := ordinal(s, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}); got != want {
				t.Errorf("%s: %s", name, fmt.Sprint(got))
			}
		})
	}
}
