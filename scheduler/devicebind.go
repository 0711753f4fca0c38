package scheduler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// assume keeps the devices of a plan from others until the state shows them as given.
func (x *deviceInventory) assume(p *devicePlan) {
	for i, claim := range p.claims {
		if p.results[i] != nil {
			x.assumed[claim.UID] = p.results[i]
		}
	}
	x.epoch++
}

// settle keeps of what is assumed that of claims which have no devices yet, and of pods whose claim is still to be made: after a gap the
// feed has not told of each change.
func (x *deviceInventory) settle(read resource.Reader) {
	open, made := map[types.UID]bool{}, map[types.UID]bool{}
	for _, claim := range resource.List(read, kinds.ResourceClaims, "") {
		owner := metav1.GetControllerOfNoCopy(claim)
		if owner != nil {
			delete(x.made, owner.UID)
		}
		if claim.Status.Allocation == nil {
			open[claim.UID] = true
		} else if owner != nil && claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] == "true" {
			made[owner.UID] = true
		}
	}
	for _, t := range x.st.tasks {
		open[extendedClaimUID(t.pod.UID)] = !made[t.pod.UID]
	}
	maps.DeleteFunc(x.assumed, func(uid types.UID, _ *resourcev1.AllocationResult) bool { return !open[uid] })
	x.epoch++
}

// A deviceBinder has devices allocated to the claims of decided pods, and reserved, before the pods are bound.
type deviceBinder struct {
	r       *runner
	waiting map[*task]bool // decided, but their devices can't be used yet
}

// forget takes the devices back from a task that did not come to use them. While they are being written they may
// be the task's after all, and what was written is: the state will show it, and the next try finds it.
func (b *deviceBinder) forget(t *task) {
	if t.devices == nil || t.devices.writing {
		return
	}
	for _, claim := range t.devices.claims[t.devices.written:] {
		delete(b.r.st.inventory.assumed, claim.UID)
	}
	t.devices = nil
	b.r.st.inventory.epoch++
}

// bind has the pod's claims to devices allocated and reserved, then the pod bound.
func (b *deviceBinder) bind(t *task, node string) {
	plan, p := t.devices, t.pod
	if plan == nil {
		b.r.bind(t, node)
		return
	}
	plan.writing = true
	b.r.writes = append(b.r.writes, func(ctx context.Context) func() {
		ctx = because(ctx, p)
		b.r.announceNode(ctx, p, node)
		err := b.writePlan(ctx, plan, p)
		return func() { b.wrote(t, node, err) }
	})
}

// wrote goes on with a pod when what was written of its devices is known.
func (b *deviceBinder) wrote(t *task, node string, err error) {
	plan := t.devices
	if plan.doubt != nil {
		b.settleDoubt(t, node, err)
		return
	}
	plan.writing = false
	if stock := b.r.st.inventory; plan.made != nil && !t.gone && stock.leftover(t) == nil {
		stock.made[t.pod.UID] = plan.made
	}
	switch {
	case t.gone:
		b.forget(t)
	case err != nil:
		b.r.bindFailed(t, fmt.Errorf(preBind, "DynamicResources", err))
	case len(plan.wait) > 0:
		b.await(t, node)
	default:
		b.r.bind(t, node)
	}
}

// settleDoubt asks what became of a claim whose write had no answer, for as long as it takes: its devices are nobody else's meanwhile, and
// held for ever they would be lost.
func (b *deviceBinder) settleDoubt(t *task, node string, err error) {
	plan := t.devices
	b.r.writes = append(b.r.writes, func(ctx context.Context) func() {
		has, known := b.allocatedNow(ctx, plan.doubt)
		return func() {
			if known {
				plan.doubt = nil
			}
			if known && has {
				plan.written++
			}
			b.wrote(t, node, err)
		}
	})
}

// change takes in what is new about devices.
func (b *deviceBinder) change(c client.Change) {
	stock := b.r.st.inventory
	claim, ok := c.Object().(*resourcev1.ResourceClaim)
	if ok && len(stock.made) > 0 {
		maps.DeleteFunc(stock.made, func(_ types.UID, made *resourcev1.ResourceClaim) bool { return made.UID == claim.UID })
	}
	if ok && (c.New == nil || claim.Status.Allocation != nil) {
		delete(stock.assumed, claim.UID) // the claim itself says now what it has
		if owner := metav1.GetControllerOfNoCopy(claim); owner != nil && claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] == "true" {
			delete(stock.assumed, extendedClaimUID(owner.UID))
		}
	}
	stock.epoch++
	if c.Kind == kinds.DeviceClasses {
		stock.byResource, stock.classEpoch = nil, stock.classEpoch+1
		b.r.wake.on(deviceClassChanged)
	}
	b.r.wake.on(deviceChanged)
	b.check()
}

// writePlan allocates the claims of a plan and reserves them for the pod, and counts in the plan how many it did. One whose
// answer was lost is in doubt: it is better to hold a device too long than to give it out twice.
func (b *deviceBinder) writePlan(ctx context.Context, plan *devicePlan, p *corev1.Pod) (err error) {
	for i, claim := range plan.claims {
		if claim == plan.extended {
			if claim, err = b.create(ctx, claim); err != nil {
				return fmt.Errorf("create claim for extended resources: %w", err)
			}
			plan.made = claim
		}
		err := b.write(ctx, claim, plan.results[i], p)
		if err == nil && plan.claims[i] == plan.extended {
			err = b.writeStatus(ctx, p, claim, plan.uses)
		}
		if err != nil && plan.claims[i] == plan.extended && !b.withdraw(ctx, claim) {
			plan.written++ // somebody has it yet
		} else if plan.claims[i] != plan.extended && doubtful(err) {
			plan.doubt = claim
		}
		if err != nil {
			return err
		}
		plan.written++
	}
	return nil
}

// create makes the claim for a pod's extended resources.
func (b *deviceBinder) create(ctx context.Context, wish *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	claim := wish.DeepCopy()
	claim.UID = ""
	obj, err := b.r.env.Client.Create(ctx, kinds.ResourceClaims, claim)
	if err != nil {
		return nil, err
	}
	return obj.(*resourcev1.ResourceClaim), nil
}

// writeStatus writes into the pod's status which claim serves its extended resources, and how.
func (b *deviceBinder) writeStatus(ctx context.Context, p *corev1.Pod, claim *resourcev1.ResourceClaim,
	uses []corev1.ContainerExtendedResourceRequest) error {
	_, err := b.r.status.write(ctx, p, statusChange{claim: &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: claim.Name,
		RequestMappings: uses}})
	return err
}

// withdraw removes a claim for extended resources that nobody will use; it says whether it is gone.
func (b *deviceBinder) withdraw(ctx context.Context, claim *resourcev1.ResourceClaim) bool {
	for range claimTries {
		obj, err := b.r.env.Client.Get(ctx, kinds.ResourceClaims, claim.Namespace, claim.Name)
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
			if _, err := b.r.env.Client.Update(ctx, kinds.ResourceClaims, next, ""); err != nil {
				continue
			}
		}
		err = b.r.env.Client.Delete(ctx, kinds.ResourceClaims, claim.Namespace, claim.Name,
			&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &claim.UID}})
		if err == nil || apierrors.IsNotFound(err) {
			return true
		}
	}
	return false
}

// doubtful says that a write that failed so may have been done all the same: there was no answer, or the server had none from its store.
func doubtful(err error) bool {
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonUnknown:
		return err != nil
	case metav1.StatusReasonInternalError, metav1.StatusReasonTimeout, metav1.StatusReasonServerTimeout, metav1.StatusReasonServiceUnavailable:
		return true
	}
	return false
}

// allocatedNow says whether the claim has devices. It asks until there is an answer, or ctx ends: then it is not known.
func (b *deviceBinder) allocatedNow(ctx context.Context, claim *resourcev1.ResourceClaim) (has, known bool) {
	const longest = 5 * time.Second
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, longest) {
		obj, err := b.r.env.Client.Get(ctx, kinds.ResourceClaims, claim.Namespace, claim.Name)
		if err == nil {
			now := obj.(*resourcev1.ResourceClaim)
			return now.UID == claim.UID && now.Status.Allocation != nil, true
		}
		if !doubtful(err) {
			return !apierrors.IsNotFound(err), true
		}
		select {
		case <-ctx.Done():
			return false, false
		case <-time.After(pause):
		}
	}
}

// claimTries bounds the tries at a claim that somebody else writes as well.
const claimTries = 5

func (b *deviceBinder) write(ctx context.Context, claim *resourcev1.ResourceClaim, result *resourcev1.AllocationResult,
	p *corev1.Pod) (err error) {
	what, name := "reservation", claim.Namespace+"/"+claim.Name
	if result != nil {
		what = "allocation and reservation"
	}
	for range claimTries {
		if err = b.r.reserve(ctx, claim, result, p); !apierrors.IsConflict(err) {
			break
		}
		obj, look := b.r.env.Client.Get(ctx, kinds.ResourceClaims, claim.Namespace, claim.Name)
		if look != nil {
			return fmt.Errorf("get updated claim %s after conflict: %w", name, look)
		}
		now := obj.(*resourcev1.ResourceClaim)
		if now.UID != claim.UID || now.DeletionTimestamp != nil {
			return fmt.Errorf("claim %s got deleted in the meantime", name)
		}
		if result != nil && now.Status.Allocation != nil {
			return fmt.Errorf("claim %s got allocated elsewhere in the meantime", name)
		}
		claim = now
	}
	if err != nil {
		return fmt.Errorf("add %s to claim %s: %w", what, name, err)
	}
	return nil
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
	next.Status.ReservedFor = append(next.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: p.Name,
		UID: p.UID})
	_, err := client.UpdateStatus(ctx, r.env.Client, kinds.ResourceClaims, next)
	return err
}

// surrender gives back the allocations that tie a pod to nodes which can't take it, if nobody else uses them: it may
// fit with other devices. It says what came of it, in a list of one; none when there was nothing to do, as since 1.37.
func (b *deviceBinder) surrender(t *task) []string {
	if !t.class.profile.on(dynamicResources) {
		return nil
	}
	p := t.pod
	old := b.r.st.inventory.leftover(t)
	if len(p.Spec.ResourceClaims) == 0 && old == nil && !t.class.asksForDevices() {
		return nil
	}
	if d := t.class.devices; d != nil && old == nil {
		for _, claim := range d.unfit() {
			if slices.ContainsFunc(claim.Status.ReservedFor, func(u resourcev1.ResourceClaimConsumerReference) bool { return u.UID != p.UID }) {
				continue
			}
			b.giveBack(p, claim)
			return []string{"deallocation of ResourceClaim completed"} // one may do; the change wakes the pod
		}
	}
	if old == nil {
		return nil
	}
	b.r.writes = append(b.r.writes, func(ctx context.Context) func() {
		gone := b.withdraw(because(ctx, p), old)
		return func() {
			stock := b.r.st.inventory
			_, untold := stock.made[p.UID]
			if delete(stock.made, p.UID); untold || !gone { // else its end wakes the pod
				b.r.q.retry(t, b.r.env.Now())
			}
		}
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
func (b *deviceBinder) giveBack(p *corev1.Pod, claim *resourcev1.ResourceClaim) {
	next := resource.Clone(claim)
	next.Status.Allocation, next.Status.ReservedFor, next.Status.Devices = nil, nil, nil
	b.r.writes = append(b.r.writes, func(ctx context.Context) func() {
		_, err := client.UpdateStatus(because(ctx, p), b.r.env.Client, kinds.ResourceClaims, next)
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			b.r.log.Error("give devices back", "kind", "ResourceClaim", "object", claim.Namespace+"/"+claim.Name, "err", err)
		}
		return nil
	})
}
