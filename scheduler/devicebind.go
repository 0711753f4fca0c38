package scheduler

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// promise keeps the devices of a plan from others until the state shows them as given.
func (st *state) promise(p *devicePlan) {
	for i, claim := range p.claims {
		if p.results[i] != nil {
			st.stock.promised[claim.UID] = p.results[i]
		}
	}
	st.stock.epoch++
}

// unpromise takes the devices back from a task that did not come to use them. While they are being written they may
// be the task's after all, and what was written is: the state will show it, and the next try finds it.
func (r *runner) unpromise(t *task) {
	if t.devices == nil || t.devices.writing {
		return
	}
	for _, claim := range t.devices.claims[t.devices.written:] {
		delete(r.st.stock.promised, claim.UID)
	}
	t.devices = nil
	r.st.stock.epoch++
}

// giveDevices has the pod's claims to devices allocated and reserved, then the pod bound.
func (r *runner) giveDevices(t *task, node string) {
	plan, p := t.devices, t.pod
	if plan == nil {
		r.bind(t, node)
		return
	}
	plan.writing = true
	r.binds = append(r.binds, func(ctx context.Context) func() {
		written, err := r.writeDevices(because(ctx, p), plan, p)
		return func() {
			plan.writing, plan.written = false, written
			switch {
			case t.gone:
				r.unpromise(t)
			case err != nil:
				r.unbound(t, fmt.Errorf("allocating devices: %w", err))
			default:
				r.bind(t, node)
			}
		}
	})
}

// deviceChange takes in what is new about devices.
func (r *runner) deviceChange(c client.Change) {
	if claim, ok := c.Object().(*resourcev1.ResourceClaim); ok && (c.New == nil || claim.Status.Allocation != nil) {
		delete(r.st.stock.promised, claim.UID) // the claim itself says now what it has
	}
	r.st.stock.epoch++
	r.wakeWhere(dynamicResources)
}

// writeDevices allocates the claims of a plan and reserves them for the pod, and returns how many it did. One whose
// answer was lost counts: it is better to hold a device too long than to give it out twice.
func (r *runner) writeDevices(ctx context.Context, plan *devicePlan, p *corev1.Pod) (written int, err error) {
	for i, claim := range plan.claims {
		err := r.writeDevice(ctx, claim, plan.results[i], p)
		if err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown && r.allocatedNow(ctx, claim) {
			written++
		}
		if err != nil {
			return written, fmt.Errorf("resourceclaim %s: %w", claim.Name, err)
		}
		written++
	}
	return written, nil
}

// allocatedNow says whether the claim has devices, as far as can be told.
func (r *runner) allocatedNow(ctx context.Context, claim *resourcev1.ResourceClaim) bool {
	obj, err := r.env.Client.Get(ctx, kinds.ResourceClaims, claim.Namespace, claim.Name)
	return err == nil && obj.(*resourcev1.ResourceClaim).Status.Allocation != nil
}

// claimTries is how often a claim is read anew that somebody else writes as well.
const claimTries = 5

func (r *runner) writeDevice(ctx context.Context, claim *resourcev1.ResourceClaim, result *resourcev1.AllocationResult, p *corev1.Pod) (err error) {
	for range claimTries {
		if err = r.reserve(ctx, claim, result, p); !apierrors.IsConflict(err) {
			return err
		}
		obj, look := r.env.Client.Get(ctx, kinds.ResourceClaims, claim.Namespace, claim.Name)
		if look != nil {
			return look
		}
		now := obj.(*resourcev1.ResourceClaim)
		if now.UID != claim.UID || now.DeletionTimestamp != nil {
			return fmt.Errorf("it was replaced or is being deleted")
		}
		if result != nil && now.Status.Allocation != nil {
			return fmt.Errorf("it was allocated by somebody else")
		}
		claim = now
	}
	return err
}

// reserve writes one claim as it was read: the finalizer that guards the allocation first.
func (r *runner) reserve(ctx context.Context, claim *resourcev1.ResourceClaim, result *resourcev1.AllocationResult, p *corev1.Pod) error {
	if resourceclaim.IsReservedForPod(p, claim, false) {
		return nil
	}
	next := resource.Clone(claim)
	if result != nil && !slices.Contains(next.Finalizers, resourcev1.Finalizer) {
		next.Finalizers = append(next.Finalizers, resourcev1.Finalizer)
		obj, err := r.env.Client.Update(ctx, kinds.ResourceClaims, next, "")
		if err != nil {
			return err
		}
		next = resource.Clone(obj.(*resourcev1.ResourceClaim))
	}
	if result != nil {
		next.Status.Allocation = result.DeepCopy()
		if next.Status.Allocation.AllocationTimestamp == nil {
			next.Status.Allocation.AllocationTimestamp = &metav1.Time{Time: r.env.Now()}
		}
	}
	next.Status.ReservedFor = append(next.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: p.Name, UID: p.UID})
	_, err := client.UpdateStatus(ctx, r.env.Client, kinds.ResourceClaims, next)
	return err
}

// surrender gives back the allocations that tie a pod to nodes which can't take it, if nobody else uses them: it may
// fit with other devices. It says what came of it, in a list of one; none when the plugin is off.
func (r *runner) surrender(t *task) []string {
	if !t.class.profile.on(devicePlugin) {
		return nil
	}
	p := t.pod
	if len(p.Spec.ResourceClaims) == 0 {
		return []string{"no new claims to deallocate"}
	}
	still := []string{"still not schedulable"}
	if d := t.class.devices; d == nil || len(d.bound) == 0 {
		return still
	}
	for i := range p.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(p, &p.Spec.ResourceClaims[i])
		if err != nil || name == nil {
			continue
		}
		claim := resource.Get(r.st.read, kinds.ResourceClaims, p.Namespace, *name)
		if claim == nil || claim.Status.Allocation == nil || slices.ContainsFunc(claim.Status.ReservedFor,
			func(u resourcev1.ResourceClaimConsumerReference) bool { return u.UID != p.UID }) {
			continue
		}
		next := resource.Clone(claim)
		next.Status.Allocation, next.Status.ReservedFor, next.Status.Devices = nil, nil, nil
		r.binds = append(r.binds, func(ctx context.Context) func() {
			_, err := client.UpdateStatus(because(ctx, p), r.env.Client, kinds.ResourceClaims, next)
			if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				r.log.Error("give devices back", "kind", "ResourceClaim", "object", claim.Namespace+"/"+claim.Name, "err", err)
			}
			return nil
		})
		return []string{"deallocation of ResourceClaim completed"} // one may do; the change wakes the pod
	}
	return still
}
