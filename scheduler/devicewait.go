package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// Devices may have to be made ready for use on the node that was chosen, a fabric's for example: their driver says so by
// conditions in the claim's status, and the pod is bound when they are true (KEP-5007).

// waits notes which claims' devices have conditions to be met before the pod is bound: those that are had, and those that will be.
func (p *devicePlan) waits(have []*resourcev1.ResourceClaim) {
	conditional := func(a *resourcev1.AllocationResult) bool {
		return a != nil && slices.ContainsFunc(a.Devices.Results,
			func(r resourcev1.DeviceRequestAllocationResult) bool { return len(r.BindingConditions) > 0 })
	}
	for _, claim := range have {
		if conditional(claim.Status.Allocation) {
			p.wait = append(p.wait, key{Namespace: claim.Namespace, Name: claim.Name})
		}
	}
	for i, claim := range p.claims {
		if claim != p.extended && conditional(p.results[i]) {
			p.wait = append(p.wait, key{Namespace: claim.Namespace, Name: claim.Name})
		}
	}
}

// readyDevices says whether all devices of a claim can be used, or that one never will.
func readyDevices(claim *resourcev1.ResourceClaim) (bool, error) {
	if claim.Status.Allocation == nil {
		return false, nil
	}
	for _, r := range claim.Status.Allocation.Devices.Results {
		if len(r.BindingConditions) == 0 {
			continue
		}
		i := slices.IndexFunc(claim.Status.Devices, func(d resourcev1.AllocatedDeviceStatus) bool {
			return d.Driver == r.Driver && d.Pool == r.Pool && d.Device == r.Device
		})
		if i < 0 {
			return false, nil
		}
		now := claim.Status.Devices[i].Conditions
		for _, name := range r.BindingFailureConditions {
			if c := meta.FindStatusCondition(now, name); c != nil && c.Status == "True" {
				return false, fmt.Errorf("device binding failed: claim=%s, reason=%s, message=%q", claim.Name, c.Reason, c.Message)
			}
		}
		for _, name := range r.BindingConditions {
			if !meta.IsStatusConditionTrue(now, name) {
				return false, nil
			}
		}
	}
	return true, nil
}

// late says whether a claim's devices have been waited for long enough.
func (x *deviceInventory) late(claim *resourcev1.ResourceClaim, p *Profile) bool {
	a := claim.Status.Allocation
	return a != nil && a.AllocationTimestamp != nil && x.st.time().After(a.AllocationTimestamp.Add(p.deviceBindTime()))
}

// await has a decided pod wait until its devices can be used.
func (b *deviceBinder) await(t *task, node string) {
	b.r.event(t.pod, "Scheduling", corev1.EventTypeNormal, "BindingConditionsPending",
		"waiting for binding conditions for device on node "+node)
	t.bindBy = b.r.env.Now().Add(t.class.profile.deviceBindTime())
	b.waiting[t] = true
	b.check()
}

// check binds the decided pods whose devices can be used by now, and gives up those that waited too long or whose
// devices failed.
func (b *deviceBinder) check() {
	for _, t := range inOrder(b.waiting) {
		ready, err := b.ready(t)
		if !ready && err == nil && b.r.env.Now().After(t.bindBy) {
			err = fmt.Errorf("device binding timeout: %w", context.DeadlineExceeded)
		}
		if !ready && err == nil {
			continue
		}
		delete(b.waiting, t)
		if ready {
			b.r.bind(t, b.r.st.nodes[t.node].name)
			continue
		}
		b.r.st.inventory.epoch++ // what is late now was not when it was looked at
		b.r.bindFailed(t, fmt.Errorf(preBind, "DynamicResources", err))
	}
}

func (b *deviceBinder) ready(t *task) (bool, error) {
	for _, k := range t.devices.wait {
		claim := resource.Get(b.r.st.read, kinds.ResourceClaims, k.Namespace, k.Name)
		if claim == nil {
			return false, fmt.Errorf("resourceclaim \"%s/%s\" not found", k.Namespace, k.Name)
		}
		ready, err := readyDevices(claim)
		if err == nil && !ready && b.r.st.inventory.late(claim, t.class.profile) {
			err = fmt.Errorf("device binding timeout: claim=%s", claim.Name)
		}
		if err != nil || !ready {
			return false, err
		}
	}
	return true, nil
}

// inOrder lists tasks in an order that replays.
func inOrder(set map[*task]bool) []*task {
	list := make([]*task, 0, len(set))
	for t := range set {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b *task) int { return strings.Compare(keyOf(a.pod).String(), keyOf(b.pod).String()) })
	return list
}

// choosy says whether some claim would rather have some devices than others.
func (d *devices) choosy() bool {
	return slices.ContainsFunc(d.open, func(c *resourcev1.ResourceClaim) bool {
		return slices.ContainsFunc(c.Spec.Devices.Requests, func(r resourcev1.DeviceRequest) bool { return len(r.FirstAvailable) > 0 })
	})
}

// scoreDevices adds what the plugin DynamicResources says of the nodes: the earlier the alternatives that claims get, the
// better.
func (cy *cycle) scoreDevices(weight int64) {
	d := cy.class.devices
	if weight == 0 || d == nil || !d.choosy() {
		return
	}
	raw := make([]int64, len(cy.st.nodes))
	for _, i := range cy.feasible {
		claims := d.toAllocate(cy.st.nodes[i])
		results, _ := d.allocate(cy.st.nodes[i].node, claims)
		for n := range results {
			raw[i] += worth(claims[n], &results[n])
		}
	}
	normalize(raw, cy.feasible, cy.total, weight, false)
}

// worth is higher the earlier in the lists of a claim are the alternatives that were taken.
func worth(claim *resourcev1.ResourceClaim, got *resourcev1.AllocationResult) (sum int64) {
	for _, r := range claim.Spec.Devices.Requests {
		for i, sub := range r.FirstAvailable {
			name := resourceclaim.CreateSubRequestRef(r.Name, sub.Name)
			if slices.ContainsFunc(got.Devices.Results, func(x resourcev1.DeviceRequestAllocationResult) bool { return x.Request == name }) {
				sum += int64(resourcev1.FirstAvailableDeviceRequestMaxSize - i)
			}
		}
	}
	return sum
}
