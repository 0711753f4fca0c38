package deployment

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A todo is one pass's difference between wish and world.
type todo struct {
	scale  []scaling
	remove []*appsv1.ReplicaSet // history beyond the limit
}

func recreates(d *appsv1.Deployment) bool {
	return d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType
}

// A scaling is a set and its new size.
type scaling struct {
	set *appsv1.ReplicaSet
	to  int32
}

// plan is pure: same deployment, same sets, same answer.
func plan(w world, _ time.Time) (t todo) {
	if w.new == nil && !paused(w.d) && !recreates(w.d) {
		return t // it is made first
	}
	switch {
	case paused(w.d) || resized(w):
		t.scale = proportional(w)
		if len(t.scale) == 0 && recreates(w.d) && !paused(w.d) {
			t.scale = recreate(w)
		}
	case recreates(w.d):
		t.scale = recreate(w)
	default:
		t.scale = roll(w)
	}
	if len(t.scale) == 0 && (paused(w.d) || complete(w.d, w.d.Status)) {
		t.remove = surplusHistory(w)
	}
	return t
}

// roll moves replicas from the old sets to the new one, as far as surge and floor allow now.
func roll(w world) []scaling {
	if to := newReplicas(w, *w.new.Spec.Replicas); to != *w.new.Spec.Replicas {
		return []scaling{{w.new, to}}
	}
	return shrinkOld(w)
}

// newReplicas returns the size that the new set may have now, given that it has `have`.
func newReplicas(w world, have int32) int32 {
	want := *w.d.Spec.Replicas
	if recreates(w.d) {
		return want
	}
	if have >= want {
		return want
	}
	total := have
	for _, rs := range w.old {
		total += *rs.Spec.Replicas
	}
	room := want + maxSurge(w.d) - total
	if room <= 0 {
		return have
	}
	return min(have+room, want)
}

// shrinkOld takes from the old sets: first pods that are not available anyway, then available ones down to the floor.
func shrinkOld(w world) (out []scaling) {
	floor := *w.d.Spec.Replicas - maxUnavailable(w.d)
	total, available := int32(0), int32(0)
	for _, rs := range w.all() {
		total += *rs.Spec.Replicas
		available += standing(rs)
	}
	newUnavailable := *w.new.Spec.Replicas - standing(w.new)
	budget := total - floor - newUnavailable
	if budget <= 0 {
		return nil
	}
	size := map[*appsv1.ReplicaSet]int32{}
	for _, rs := range w.old {
		size[rs] = *rs.Spec.Replicas
		sick := min(size[rs]-rs.Status.AvailableReplicas, budget)
		if sick > 0 && size[rs] > 0 {
			size[rs] -= sick
			budget -= sick
		}
	}
	spare := min(available-floor, budget)
	for _, rs := range w.old {
		if spare <= 0 {
			break
		}
		n := min(size[rs], spare)
		size[rs] -= n
		spare -= n
	}
	for _, rs := range w.old {
		if size[rs] != *rs.Spec.Replicas {
			out = append(out, scaling{rs, size[rs]})
		}
	}
	return out
}

// standing is the number of available pods that a set has for sure: those that it counted when it knew its size, and means to keep.
//
// Unlike Kubernetes, a set that has not seen its size counts for nothing here. It may still act on an earlier one, and
// take pods away that its status shows: as when a set was emptied and a roll-back filled it before it heard of either.
func standing(rs *appsv1.ReplicaSet) int32 {
	if rs.Status.ObservedGeneration < rs.Generation {
		return 0
	}
	return min(rs.Status.AvailableReplicas, *rs.Spec.Replicas)
}

// recreate empties the old sets, and only when their pods are gone fills the new one.
func recreate(w world) (out []scaling) {
	for _, rs := range w.old {
		if *rs.Spec.Replicas > 0 {
			out = append(out, scaling{rs, 0})
		}
	}
	if len(out) == 0 && !w.running && w.new != nil && *w.new.Spec.Replicas != *w.d.Spec.Replicas {
		out = append(out, scaling{w.new, *w.d.Spec.Replicas})
	}
	return out
}

// resized says that the deployment's size changed since its sets were last scaled.
func resized(w world) bool {
	for _, rs := range w.all() {
		if *rs.Spec.Replicas == 0 {
			continue
		}
		if n, err := strconv.Atoi(rs.Annotations[desiredKey]); err == nil && int32(n) != *w.d.Spec.Replicas {
			return true
		}
	}
	return false
}

// proportional spreads a new size over the sets in the middle of a rollout, so that the risk stays as it was: each
// gets its share of the change, the largest first, and what rounding leaves goes to the largest.
func proportional(w world) (out []scaling) {
	var live []*appsv1.ReplicaSet
	for _, rs := range w.all() {
		if *rs.Spec.Replicas > 0 {
			live = append(live, rs)
		}
	}
	want := *w.d.Spec.Replicas
	if len(live) <= 1 {
		one := latest(w, live)
		if one != nil && (*one.Spec.Replicas != want || one.Annotations[desiredKey] != strconv.Itoa(int(want))) {
			return []scaling{{one, want}}
		}
		return nil
	}
	if w.new != nil && standing(w.new) == want && *w.new.Spec.Replicas == want {
		return drainOld(w)
	}
	if recreates(w.d) {
		return nil // its sets have no shares: old ones are emptied first
	}
	return spread(w, live)
}

// latest is the set that a deployment with a single active set scales.
func latest(w world, live []*appsv1.ReplicaSet) *appsv1.ReplicaSet {
	switch {
	case len(live) == 1:
		return live[0]
	case w.new != nil:
		return w.new
	case len(w.old) > 0:
		return w.old[len(w.old)-1]
	}
	return nil
}

func drainOld(w world) (out []scaling) {
	for _, rs := range w.old {
		if *rs.Spec.Replicas > 0 {
			out = append(out, scaling{rs, 0})
		}
	}
	return out
}

func spread(w world, live []*appsv1.ReplicaSet) (out []scaling) {
	total, allowed := int32(0), int32(0)
	for _, rs := range live {
		total += *rs.Spec.Replicas
	}
	if *w.d.Spec.Replicas > 0 {
		allowed = *w.d.Spec.Replicas + maxSurge(w.d)
	}
	change := allowed - total
	slices.SortStableFunc(live, func(a, b *appsv1.ReplicaSet) int {
		newer := b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
		if change < 0 {
			newer = -newer
		}
		return cmp.Or(cmp.Compare(*b.Spec.Replicas, *a.Spec.Replicas), newer)
	})
	left, size := change, make([]int32, len(live))
	for i, rs := range live {
		part := share(w.d, rs, change, left, allowed)
		size[i] = *rs.Spec.Replicas + part
		left -= part
	}
	size[0] = max(0, size[0]+left)
	for i, rs := range live {
		if size[i] != *rs.Spec.Replicas || rs.Annotations[desiredKey] != strconv.Itoa(int(*w.d.Spec.Replicas)) {
			out = append(out, scaling{rs, size[i]})
		}
	}
	return out
}

// share is a set's part of the change: its part of what the deployment was allowed when it was last scaled.
func share(d *appsv1.Deployment, rs *appsv1.ReplicaSet, change, left, allowed int32) int32 {
	if *rs.Spec.Replicas == 0 || change == 0 || left == 0 {
		return 0
	}
	was, err := strconv.Atoi(rs.Annotations[maxKey])
	if err != nil || was == 0 {
		was = int(d.Status.Replicas)
	}
	if was == 0 {
		return 0
	}
	exact := float64(*rs.Spec.Replicas) * float64(allowed) / float64(was)
	part := int32(exact+0.5) - *rs.Spec.Replicas
	if change > 0 {
		return min(max(part, 0), left)
	}
	return max(min(part, 0), left)
}

// surplusHistory picks the oldest empty sets beyond spec.revisionHistoryLimit.
func surplusHistory(w world) (out []*appsv1.ReplicaSet) {
	if w.d.Spec.RevisionHistoryLimit == nil {
		return nil
	}
	var idle []*appsv1.ReplicaSet
	for _, rs := range w.old {
		if rs.DeletionTimestamp == nil {
			idle = append(idle, rs)
		}
	}
	slices.SortStableFunc(idle, func(a, b *appsv1.ReplicaSet) int { return cmp.Compare(revision(a), revision(b)) })
	over := len(idle) - int(*w.d.Spec.RevisionHistoryLimit)
	for i := 0; i < over; i++ {
		rs := idle[i]
		if rs.Status.Replicas == 0 && *rs.Spec.Replicas == 0 && rs.Generation <= rs.Status.ObservedGeneration {
			out = append(out, rs)
		}
	}
	return out
}

// bounds resolves maxSurge (rounded up) and maxUnavailable (rounded down) against the size; both zero would never
// move, so then one may be unavailable.
func bounds(d *appsv1.Deployment) (surge, unavailable int32) {
	r := d.Spec.Strategy.RollingUpdate
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType || r == nil {
		return 0, 0
	}
	size := int(*d.Spec.Replicas)
	s := scaled(r.MaxSurge, size, true)
	u := scaled(r.MaxUnavailable, size, false)
	if s == 0 && u == 0 {
		u = 1
	}
	return min(s, math.MaxInt32-*d.Spec.Replicas), min(u, *d.Spec.Replicas)
}

func scaled(v *intstr.IntOrString, size int, up bool) int32 {
	if v == nil {
		return 0
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(v, size, up)
	if err != nil {
		return 0 // validation refuses such values
	}
	return int32(min(n, math.MaxInt32))
}

func maxSurge(d *appsv1.Deployment) int32       { s, _ := bounds(d); return s }
func maxUnavailable(d *appsv1.Deployment) int32 { _, u := bounds(d); return u }

// complete says that the rollout is done: all replicas are new and available and no old pod is left.
func complete(d *appsv1.Deployment, st appsv1.DeploymentStatus) bool {
	return st.UpdatedReplicas == *d.Spec.Replicas && st.Replicas == *d.Spec.Replicas &&
		st.AvailableReplicas == *d.Spec.Replicas && st.ObservedGeneration >= d.Generation
}
