// Package resourcequota counts what the objects of a namespace use of its quotas. Admission charges what is
// created; this loop notices what is freed, and whatever admission could not know.
//
//	reads   ResourceQuota, every kind that a quota may count
//	writes  ResourceQuota: status
//	rule    status.hard is spec.hard, status.used is the sum over all objects that the quota applies to
package resourcequota

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/quota"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// settle is how long a sum must stand still before the use is lowered: admission charges a quota a moment before the object
// that it charges for can be seen.
const settle = 500 * time.Millisecond

// Controller returns the loop over the kinds of the set: wake on a quota, and when an object in its namespace goes
// or comes to use something else.
func Controller(set *resource.Set) *loop.Controller[*corev1.ResourceQuota] {
	l := &lower{seen: map[types.UID]standing{}}
	return &loop.Controller[*corev1.ResourceQuota]{
		Name:   "resource-quota",
		For:    kinds.ResourceQuotas,
		Wake:   []loop.Wake{{Keys: freed}},
		Writes: []resource.Kind{kinds.ResourceQuotas},
		Rest:   50 * time.Millisecond,
		Reconcile: func(ctx context.Context, c *loop.Ctx, q *corev1.ResourceQuota) (time.Duration, error) {
			if q.DeletionTimestamp != nil {
				return 0, nil
			}
			next := plan(q, used(c, set.All(), q, c.Now()))
			if next == nil {
				l.forget(q.UID)
				return 0, nil
			}
			if wait := l.wait(q, next, c.Now()); wait > 0 {
				return wait, nil
			}
			return 0, c.UpdateStatus(ctx, kinds.ResourceQuotas, next)
		},
	}
}

// freed wakes the quotas of a namespace when an object is gone, or uses something else than before. What is created was
// charged at the door, unless the quota was not known there yet.
func freed(c client.Change, read resource.Reader, wake func(ns, name string)) {
	ns := c.Object().GetNamespace()
	if ns == "" || c.Kind == resource.Kind(kinds.ResourceQuotas) || c.Kind == resource.Kind(kinds.Events) {
		return
	}
	for obj := range read.Each(kinds.ResourceQuotas, ns) {
		q := obj.(*corev1.ResourceQuota)
		if c.New == nil || c.Old == nil || changes(c, q) {
			wake(ns, q.Name)
		}
	}
}

func changes(c client.Change, q *corev1.ResourceQuota) bool {
	gr := c.Kind.Info().GR()
	if len(quota.Relevant(gr, q.Spec.Hard)) == 0 {
		return false
	}
	now := time.Now()
	return quota.Applies(q, q.Spec.Hard, gr, c.Old) != quota.Applies(q, q.Spec.Hard, gr, c.New) ||
		!equal(quota.Usage(gr, c.Old, now), quota.Usage(gr, c.New, now))
}

// used sums up what the namespace uses of what the quota limits.
func used(read resource.Reader, all []resource.Kind, q *corev1.ResourceQuota, now time.Time) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for name := range q.Spec.Hard {
		sum[name] = *apiresource.NewQuantity(0, apiresource.DecimalSI)
	}
	for _, k := range all {
		i := k.Info()
		names := quota.Relevant(i.GR(), q.Spec.Hard)
		if !i.Namespaced || i.Virtual || len(names) == 0 {
			continue
		}
		for obj := range read.Each(k, q.Namespace) {
			if !quota.Applies(q, q.Spec.Hard, i.GR(), obj) {
				continue
			}
			for name, n := range quota.Usage(i.GR(), obj, now) {
				if slices.Contains(names, name) {
					have := sum[name]
					have.Add(n)
					sum[name] = have
				}
			}
		}
	}
	return sum
}

// plan is pure: it returns the quota with its status as it should be, or nil when it is so.
func plan(q *corev1.ResourceQuota, used corev1.ResourceList) *corev1.ResourceQuota {
	if equal(q.Status.Hard, q.Spec.Hard) && equal(q.Status.Used, used) {
		return nil
	}
	next := resource.Clone(q)
	next.Status = corev1.ResourceQuotaStatus{Hard: next.Spec.Hard.DeepCopy(), Used: used}
	return next
}

func equal(a, b corev1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, n := range a {
		if m, ok := b[name]; !ok || n.Cmp(m) != 0 {
			return false
		}
	}
	return true
}

// lower remembers quotas whose use seems too high.
type lower struct {
	mu   sync.Mutex
	seen map[types.UID]standing
}

// standing is a quota's revision, and since when it has been looked at with that.
type standing struct {
	revision string
	since    time.Time
}

// wait says how long to hold back a lower use. Anything else may be written at once.
func (l *lower) wait(q, next *corev1.ResourceQuota, now time.Time) time.Duration {
	if !equal(q.Status.Hard, q.Spec.Hard) || len(q.Status.Used) != len(next.Status.Used) {
		return 0
	}
	for name, n := range next.Status.Used {
		if have, ok := q.Status.Used[name]; !ok || n.Cmp(have) > 0 {
			return 0
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s, ok := l.seen[q.UID]
	if !ok || s.revision != q.ResourceVersion {
		l.seen[q.UID] = standing{q.ResourceVersion, now}
		return settle
	}
	if left := s.since.Add(settle).Sub(now); left > 0 {
		return left
	}
	delete(l.seen, q.UID)
	return 0
}

func (l *lower) forget(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.seen, uid)
}
