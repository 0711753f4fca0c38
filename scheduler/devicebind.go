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
		ctx = because(ctx, p)
		r.expect(ctx, p, node)
		written, err := r.writeDevices(ctx, plan, p)
		return func() {
			plan.writing, plan.written = false, written
			switch {
			case t.gone:
				r.unpromise(t)
			case err != nil:
				r.unbound(t, fmt.Errorf("allocating devices: %w", err))
			case len(plan.wait) > 0:
				r.awaitDevices(t, node)
			default:
				r.bind(t, node)
			}
		}
	})
}

// deviceChange takes in what is new about devices.
func (r *runner) deviceChange(c client.Change) {
	stock := r.st.stock
	if claim, ok := c.Object().(*resourcev1.ResourceClaim); ok && (c.New == nil || claim.Status.Allocation != nil) {
		delete(stock.promised, claim.UID) // the claim itself says now what it has
		if owner := metav1.GetControllerOfNoCopy(claim); owner != nil && claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] == "true" {
			delete(stock.promised, wishUID(owner.UID))
		}
	}
	stock.epoch++
	if c.Kind == kinds.DeviceClasses {
		stock.byResource, stock.classEpoch = nil, stock.classEpoch+1
		r.wakeWhere(nodeResourcesFit)
	}
	r.wakeWhere(dynamicResources)
	r.checkDevices()
}

// writeDevices allocates the claims of a plan and reserves them for the pod, and returns how many it did. One whose
// answer was lost counts: it is better to hold a device too long than to give it out twice.
func (r *runner) writeDevices(ctx context.Context, plan *devicePlan, p *corev1.Pod) (written int, err error) {
	for i, claim := range plan.claims {
		if claim == plan.wish {
			if claim, err = r.grant(ctx, claim); err != nil {
				return written, fmt.Errorf("create claim for extended resources: %w", err)
			}
		}
		err := r.writeDevice(ctx, claim, plan.results[i], p)
		if err == nil && plan.claims[i] == plan.wish {
			err = r.tellDevices(ctx, p, claim, plan.uses)
		}
		if err != nil && plan.claims[i] == plan.wish && !r.withdraw(ctx, claim) {
			written++ // somebody has it yet
		} else if err != nil && plan.claims[i] != plan.wish && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown && r.allocatedNow(ctx, claim) {
			written++
		}
		if err != nil {
			return written, fmt.Errorf("resourceclaim %s: %w", claim.Name, err)
		}
		written++
	}
	return written, nil
}

// grant makes the claim for a pod's extended resources.
func (r *runner) grant(ctx context.Context, wish *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	claim := wish.DeepCopy()
	claim.UID = ""
	obj, err := r.env.Client.Create(ctx, kinds.ResourceClaims, claim)
	if err != nil {
		return nil, err
	}
	return obj.(*resourcev1.ResourceClaim), nil
}

// tellDevices writes into the pod's status which claim serves its extended resources, and how.
func (r *runner) tellDevices(ctx context.Context, p *corev1.Pod, claim *resourcev1.ResourceClaim, uses []corev1.ContainerExtendedResourceRequest) error {
	return r.patchStatus(ctx, p, map[string]any{"extendedResourceClaimStatus": corev1.PodExtendedResourceClaimStatus{
		ResourceClaimName: claim.Name, RequestMappings: uses}})
}

// withdraw removes a claim for extended resources that nobody will use; it says whether it is gone.
func (r *runner) withdraw(ctx context.Context, claim *resourcev1.ResourceClaim) bool {
	for range claimTries {
		obj, err := r.env.Client.Get(ctx, kinds.ResourceClaims, claim.Namespace, claim.Name)
		if err != nil {
			return apierrors.IsNotFound(err)
		}
		now := obj.(*resourcev1.ResourceClaim)
		if now.UID != claim.UID {
			return true
		}
		if slices.Contains(now.Finalizers, resourcev1.Finalizer) {
			next := resource.Clone(now)
			next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == resourcev1.Finalizer })
			if _, err := r.env.Client.Update(ctx, kinds.ResourceClaims, next, ""); err != nil {
				continue
			}
		}
		err = r.env.Client.Delete(ctx, kinds.ResourceClaims, claim.Namespace, claim.Name, &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &claim.UID}})
		if err == nil || apierrors.IsNotFound(err) {
			return true
		}
	}
	return false
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
	old := r.st.leftover(t)
	if len(p.Spec.ResourceClaims) == 0 && old == nil && !t.class.asksForDevices() {
		return []string{"no new claims to deallocate"}
	}
	if d := t.class.devices; d != nil && old == nil {
		for _, claim := range d.unfit() {
			if slices.ContainsFunc(claim.Status.ReservedFor, func(u resourcev1.ResourceClaimConsumerReference) bool { return u.UID != p.UID }) {
				continue
			}
			r.giveBack(p, claim)
			return []string{"deallocation of ResourceClaim completed"} // one may do; the change wakes the pod
		}
	}
	if old == nil {
		return []string{"still not schedulable"}
	}
	r.binds = append(r.binds, func(ctx context.Context) func() {
		if !r.withdraw(because(ctx, p), old) {
			return func() { r.q.retry(t, r.env.Now()) }
		}
		return nil
	})
	return []string{"deletion of ResourceClaim completed"}
}

// unfit are the claims that keep the pods of the class from nodes, with the devices that they have.
func (d *devices) unfit() []*resourcev1.ResourceClaim {
	if len(d.useless) > 0 || len(d.bound) == 0 {
		return d.useless
	}
	return d.have
}

// giveBack takes a claim's devices away from the pod, which can't use them where they are.
func (r *runner) giveBack(p *corev1.Pod, claim *resourcev1.ResourceClaim) {
	next := resource.Clone(claim)
	next.Status.Allocation, next.Status.ReservedFor, next.Status.Devices = nil, nil, nil
	r.binds = append(r.binds, func(ctx context.Context) func() {
		_, err := client.UpdateStatus(because(ctx, p), r.env.Client, kinds.ResourceClaims, next)
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			r.log.Error("give devices back", "kind", "ResourceClaim", "object", claim.Namespace+"/"+claim.Name, "err", err)
		}
		return nil
	})
}
