// Package devicetainteviction removes pods from devices whose NoExecute taints their claims do not tolerate, or no longer.
//
//	reads   ResourceClaim, ResourceSlice, DeviceTaintRule, Pod
//	writes  Pod: the condition DisruptionTarget, delete; DeviceTaintRule: status
//	rule    a pod uses a device as long as its claim tolerates every NoExecute taint of it; a rule says whether it still
//	        has pods to evict
package devicetainteviction

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/kloop-dev/kloop/controllers/internal/pods"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/dra"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Controller is the loop: wake on a claim, on the taints of its devices, and when a toleration runs out.
var Controller = &loop.Controller[*resourcev1.ResourceClaim]{
	Name:   "device-taint-eviction",
	For:    kinds.ResourceClaims,
	Skip:   func(c *resourcev1.ResourceClaim) bool { return c.Status.Allocation == nil },
	Wake:   []loop.Wake{loop.Each(kinds.ResourceSlices, ofSlice), loop.Each(kinds.DeviceTaintRules, ofRule)},
	Writes: []resource.Kind{kinds.Pods},
	Reconcile: func(ctx context.Context, c *loop.Ctx, claim *resourcev1.ResourceClaim) (time.Duration, error) {
		at, taint := plan(claim, taintsOf(c))
		if at.IsZero() {
			return 0, nil
		}
		if left := at.Sub(c.Now()); left > 0 {
			return left, nil
		}
		var errs []error // of those that can't be evicted, who keep no others
		for _, r := range claim.Status.ReservedFor {
			p := resource.Get(c, kinds.Pods, claim.Namespace, r.Name)
			if p == nil || p.UID != r.UID || p.DeletionTimestamp != nil || core.Terminal(p) {
				continue
			}
			errs = append(errs, evict(ctx, c, p, taint))
		}
		return 0, errors.Join(errs...)
	},
}

// Rules is the loop that tells how far a rule has come: wake on a rule and on the claims that it may be about.
var Rules = &loop.Controller[*resourcev1.DeviceTaintRule]{
	Name:   "device-taint-rules",
	For:    kinds.DeviceTaintRules,
	Wake:   []loop.Wake{loop.Each(kinds.ResourceClaims, allRules)},
	Writes: []resource.Kind{kinds.DeviceTaintRules},
	Rest:   time.Second,
	Reconcile: func(ctx context.Context, c *loop.Ctx, r *resourcev1.DeviceTaintRule) (time.Duration, error) {
		left := 0
		for _, claim := range resource.List(c, kinds.ResourceClaims, "") {
			if at, _ := plan(claim, func(d, p, n string) []resourcev1.DeviceTaint { return ruleTaint(r, d, p, n) }); !at.IsZero() {
				left += len(claim.Status.ReservedFor)
			}
		}
		next := resource.Clone(r)
		meta.SetStatusCondition(&next.Status.Conditions, progress(r, left, c.Now()))
		if equality.Semantic.DeepEqual(next.Status, r.Status) {
			return 0, nil
		}
		return 0, c.UpdateStatus(ctx, kinds.DeviceTaintRules, next)
	},
}

// progress is the rule's condition, given how many pods are to go.
func progress(r *resourcev1.DeviceTaintRule, left int, now time.Time) metav1.Condition {
	c := metav1.Condition{Type: resourcev1.DeviceTaintConditionEvictionInProgress, Status: metav1.ConditionFalse,
		ObservedGeneration: r.Generation,
		Reason:             "NoEffect", Message: "The taint evicts no pods.", LastTransitionTime: metav1.NewTime(now)}
	switch {
	case left > 0:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, "PodsPendingEviction", fmt.Sprintf("%d pods are to be evicted.", left)
	case r.Spec.Taint.Effect == resourcev1.DeviceTaintEffectNoExecute:
		c.Reason, c.Message = "Completed", "No pods are to be evicted."
	}
	return c
}

// A lookup returns the taints of a device.
type lookup func(driver, pool, device string) []resourcev1.DeviceTaint

// taintsOf looks in the slices and among the rules.
func taintsOf(read resource.Reader) lookup {
	return func(driver, pool, device string) (list []resourcev1.DeviceTaint) {
		for _, s := range resource.List(read, kinds.ResourceSlices, "") {
			if s.Spec.Driver != driver || s.Spec.Pool.Name != pool {
				continue
			}
			for i := range s.Spec.Devices {
				if d := &s.Spec.Devices[i]; d.Name == device {
					list = append(list, d.Taints...)
				}
			}
		}
		for _, r := range dra.Rules(read) {
			list = append(list, ruleTaint(r, driver, pool, device)...)
		}
		return list
	}
}

func ruleTaint(r *resourcev1.DeviceTaintRule, driver, pool, device string) []resourcev1.DeviceTaint {
	if !dra.Covers(r, driver, pool, device) {
		return nil
	}
	return []resourcev1.DeviceTaint{r.Spec.Taint}
}

// plan says when the claim's pods have to go, and for which taint; the zero time: they need not.
func plan(claim *resourcev1.ResourceClaim, taints lookup) (at time.Time, why resourcev1.DeviceTaint) {
	if claim.Status.Allocation == nil {
		return at, why
	}
	for _, d := range claim.Status.Allocation.Devices.Results {
		for _, t := range taints(d.Driver, d.Pool, d.Device) {
			if t.Effect != resourcev1.DeviceTaintEffectNoExecute {
				continue
			}
			if end, forever := until(t, d.Tolerations); !forever && (at.IsZero() || end.Before(at)) {
				at, why = end, t
			}
		}
	}
	return at, why
}

// until is the time for which a taint is tolerated.
func until(t resourcev1.DeviceTaint, tolerations []resourcev1.DeviceToleration) (end time.Time, forever bool) {
	began := time.Unix(0, 0)
	if t.TimeAdded != nil {
		began = t.TimeAdded.Time
	}
	end = began
	first := true
	for _, o := range tolerations {
		if !resourceclaim.ToleratesTaint(o, t) {
			continue
		}
		if o.TolerationSeconds == nil {
			return end, true
		}
		if stay := began.Add(resource.Seconds(max(0, *o.TolerationSeconds))); first || stay.Before(end) {
			end, first = stay, false
		}
	}
	return end, false
}

// evict marks the pod as disrupted and deletes it.
func evict(ctx context.Context, c *loop.Ctx, p *corev1.Pod, t resourcev1.DeviceTaint) error {
	c.Event(kinds.Pods, p, corev1.EventTypeNormal, "DeviceTaintManagerEviction", "Marking for deletion")
	err := pods.Disrupt(ctx, c, p, "DeletionByDeviceTaintManager",
		fmt.Sprintf("Device Taint manager: deleting due to NoExecute taint %s", t.Key))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return c.Delete(ctx, kinds.Pods, p)
}

// ofSlice wakes the claims that have a device of the slice's pool.
func ofSlice(obj resource.Object, read resource.Reader, wake func(ns, name string)) {
	s := obj.(*resourcev1.ResourceSlice)
	having(read, wake, func(d *resourcev1.DeviceRequestAllocationResult) bool {
		return d.Driver == s.Spec.Driver && d.Pool == s.Spec.Pool.Name
	})
}

// ofRule wakes the claims that have a device that the rule is about.
func ofRule(obj resource.Object, read resource.Reader, wake func(ns, name string)) {
	r := obj.(*resourcev1.DeviceTaintRule)
	having(read, wake, func(d *resourcev1.DeviceRequestAllocationResult) bool {
		return dra.Covers(r, d.Driver, d.Pool, d.Device)
	})
}

func having(read resource.Reader, wake func(ns, name string), suits func(*resourcev1.DeviceRequestAllocationResult) bool) {
	for _, c := range resource.List(read, kinds.ResourceClaims, "") {
		if c.Status.Allocation == nil {
			continue
		}
		for i := range c.Status.Allocation.Devices.Results {
			if suits(&c.Status.Allocation.Devices.Results[i]) {
				wake(c.Namespace, c.Name)
				break
			}
		}
	}
}

// allRules wakes every rule: there are few, and only claims that have devices matter.
func allRules(obj resource.Object, read resource.Reader, wake func(ns, name string)) {
	if obj.(*resourcev1.ResourceClaim).Status.Allocation == nil {
		return
	}
	for _, r := range dra.Rules(read) {
		wake("", r.Name)
	}
}
