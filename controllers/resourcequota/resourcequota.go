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
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/quota"
	"github.com/kloop-dev/kloop/kinds/quota/devices"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Controller returns the loop over the kinds of the set: wake on a quota, and when an object in its namespace goes
// or comes to use something else.
func Controller(set *resource.Set) *loop.Controller[*corev1.ResourceQuota] {
	l := &ledger{accounts: map[types.NamespacedName]*account{}}
	return &loop.Controller[*corev1.ResourceQuota]{
		Name:   "resource-quota",
		For:    kinds.ResourceQuotas,
		Wake:   []loop.Wake{{Keys: l.watch}},
		Writes: []resource.Kind{kinds.ResourceQuotas},
		Rest:   50 * time.Millisecond,
		Gone: func(_ context.Context, _ *loop.Ctx, key loop.Key) (time.Duration, error) {
			l.forget(types.NamespacedName{Namespace: key.Namespace, Name: key.Name})
			return 0, nil
		},
		Reconcile: func(ctx context.Context, c *loop.Ctx, q *corev1.ResourceQuota) (time.Duration, error) {
			if q.DeletionTimestamp != nil {
				return 0, nil
			}
			use, freed, wait := l.credit(q, used(c, set.All(), q, c.Now()), c.Now())
			next := plan(q, use)
			if next == nil {
				if wait == 0 {
					l.settled(q, freed)
				}
				return wait, nil
			}
			if err := c.UpdateStatus(ctx, kinds.ResourceQuotas, next); err != nil {
				return 0, err
			}
			l.settled(q, freed)
			return 0, nil
		},
	}
}

// watch wakes the quotas of a namespace when an object is gone, or uses something else than before. What is created was
// charged at the door, unless the quota was not known there yet.
func (l *ledger) watch(c client.Change, read resource.Reader, wake func(ns, name string)) {
	ns := c.Object().GetNamespace()
	if ns == "" || c.Kind == resource.Kind(kinds.ResourceQuotas) || c.Kind == resource.Kind(kinds.Events) {
		return
	}
	now := time.Now()
	for obj := range read.Each(kinds.ResourceQuotas, ns) {
		q := obj.(*corev1.ResourceQuota)
		if c.Old == nil {
			wake(ns, q.Name)
			continue
		}
		before, after := of(q, c.Kind, c.Old, now), of(q, c.Kind, c.New, now)
		l.note(q, c, quota.Less(before, after))
		if c.New == nil || !equal(before, after) {
			wake(ns, q.Name)
		}
	}
}

// of returns the usage of one object that a quota limits; nil for no object.
func of(q *corev1.ResourceQuota, k resource.Kind, obj resource.Object, now time.Time) corev1.ResourceList {
	gr := k.Info().GR()
	names := quota.Relevant(gr, q.Spec.Hard)
	if obj == nil || len(names) == 0 || !quota.Applies(q, q.Spec.Hard, gr, obj) {
		return nil
	}
	use := quota.Usage(gr, obj, now, devices.Of)
	for name := range use {
		if !slices.Contains(names, name) {
			delete(use, name)
		}
	}
	return use
}

// used sums up what the namespace uses of what the quota limits.
func used(read resource.Reader, all []resource.Kind, q *corev1.ResourceQuota, now time.Time) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, k := range all {
		i := k.Info()
		if !i.Namespaced || i.Virtual {
			continue
		}
		names := quota.Relevant(i.GR(), q.Spec.Hard)
		if len(names) == 0 {
			continue
		}
		for _, name := range names { // what no kind uses is not counted
			if _, ok := sum[name]; !ok {
				sum[name] = *apiresource.NewQuantity(0, apiresource.DecimalSI)
			}
		}
		for obj := range read.Each(k, q.Namespace) {
			quota.Add(sum, of(q, k, obj, now))
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
