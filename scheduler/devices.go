package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/dra"
	"github.com/kloop-dev/kloop/kinds/expression"
	"github.com/kloop-dev/kloop/resource"
)

// The plugin DynamicResources. Which devices suit a claim on a node is decided by the library that every scheduler
// shares (k8s.io/dynamic-resource-allocation); whose turn it is, and that no device is given out twice, is ours.

var (
	otherDevices = &refusal{plugin: dynamicResources, reasons: []string{"resourceclaim not available on the node"}, unresolvable: true}
	noDevices    = &refusal{plugin: dynamicResources, reasons: []string{"cannot allocate all claims"}, unresolvable: true}
	slowDevices  = &refusal{plugin: dynamicResources, reasons: []string{"timed out trying to allocate devices"}, unresolvable: true}
	oldClaim     = &refusal{plugin: dynamicResources, reasons: []string{"cannot schedule extended resource claim"}, unresolvable: true}
)

// deviceFeatures are those that are on by default in upstream's 1.37.
var deviceFeatures = structured.Features{AdminAccess: true, PrioritizedList: true, PartitionableDevices: true, DeviceTaints: true,
	ConsumableCapacity:      true,
	FractionalCapacityRange: true, DeviceBindingAndStatus: true}

// selectors bounds the compiled device selectors that are kept.
const selectors = 100

// deviceInventory holds assumed allocations, and the library's allocator for the present state.
type deviceInventory struct {
	st      *state
	epoch   int64                                      // claims, slices, classes, taints, and what is assumed
	assumed map[types.UID]*resourcev1.AllocationResult // by claim: decided, not seen in the state yet
	made    map[types.UID]*resourcev1.ResourceClaim    // by pod: for extended resources, not seen in the state yet
	cel     *cel.Cache

	byResource map[corev1.ResourceName]string // device classes by the extended resource that they stand for; nil: to be looked up
	classEpoch int64                          // device classes

	at        int64
	allocator structured.Allocator // as of at
	broken    error
}

func newDeviceInventory(st *state) *deviceInventory {
	expression.Bound()
	return &deviceInventory{st: st, assumed: map[types.UID]*resourcev1.AllocationResult{},
		made: map[types.UID]*resourcev1.ResourceClaim{}, at: -1,
		cel: cel.NewCache(selectors, cel.Features{EnableConsumableCapacity: deviceFeatures.ConsumableCapacity})}
}

// devices are the resource claims of a class at one moment, by what has to be done for them.
type devices struct {
	broken    string // why no node will do
	failed    error  // a node could not be judged: a selector or a class is wrong
	early     bool   // a claim is not there yet: the pod's time has not come (PreEnqueue)
	bound     []*nodeaffinity.NodeSelector
	open      []*resourcev1.ResourceClaim // to be allocated
	have      []*resourcev1.ResourceClaim // allocated already
	useless   []*resourcev1.ResourceClaim // of those, whose devices could not be made ready for use
	extended  map[string]*extendedClaim   // for extended resources, by what nodes lack
	class     *podClass
	state     *state
	allocator structured.Allocator
}

// devicePlan lists the claims to be written before the pod can be bound.
type devicePlan struct {
	claims   []*resourcev1.ResourceClaim               // as they were read
	results  []*resourcev1.AllocationResult            // nil: it has its devices, and is to be reserved
	extended *resourcev1.ResourceClaim                 // the one of them that is for extended resources, to be made; nil: none
	made     *resourcev1.ResourceClaim                 // that one, when it is there
	uses     []corev1.ContainerExtendedResourceRequest // of extended resources, by container
	wait     []key                                     // claims whose devices must be made ready for use
	writing  bool
	written  int                       // how many of them are, from the first
	doubt    *resourcev1.ResourceClaim // the one after these, if there was no answer; nil: it is known not to be written
}

// of looks up the class's claims. A class with claims made for one pod is of that pod alone.
func (x *deviceInventory) of(c *podClass) *devices {
	d := &devices{state: x.st, class: c, extended: map[string]*extendedClaim{}}
	if x.st.read == nil {
		return d
	}
	for i := range c.pod.Spec.ResourceClaims {
		name, own, err := resourceclaim.Name(c.pod, &c.pod.Spec.ResourceClaims[i])
		if err != nil {
			d.broken, d.early = "waiting for the resource claim controller: "+err.Error(), true
			return d
		}
		if name == nil {
			continue // none is needed
		}
		claim := resource.Get(x.st.read, kinds.ResourceClaims, c.pod.Namespace, *name)
		switch {
		case claim == nil:
			d.broken = fmt.Sprintf("waiting for resourceclaim %q: not found", *name)
		case claim.DeletionTimestamp != nil:
			d.broken = fmt.Sprintf("resourceclaim %q is being deleted", *name)
		case own:
			if err := resourceclaim.IsForPod(c.pod, claim, false); err != nil {
				d.broken = err.Error()
			}
		}
		if d.early = d.broken != ""; !d.early {
			d.broken = d.add(claim, c.pod)
		}
		if d.broken != "" {
			return d
		}
	}
	if len(d.open) == 0 && !c.asksForDevices() {
		return d
	}
	var err error
	if d.allocator, err = x.deviceAllocator(); err != nil {
		d.broken = err.Error()
	}
	return d
}

// add sorts a claim; the answer says why it can't be had at all.
func (d *devices) add(claim *resourcev1.ResourceClaim, p *corev1.Pod) string {
	result := claim.Status.Allocation
	if result == nil {
		if d.state.inventory.assumed[claim.UID] != nil {
			return fmt.Sprintf("resourceclaim %q is being allocated for another pod", claim.Name)
		}
		if why := d.state.inventory.classless(claim); why != "" {
			return why
		}
		d.open = append(d.open, claim)
		return ""
	}
	if !resourceclaim.IsReservedForPod(p, claim, false) && !resourceclaim.CanBeReserved(claim) {
		return fmt.Sprintf("resourceclaim %q is in use", claim.Name)
	}
	d.have = append(d.have, claim)
	if ready, err := readyDevices(claim); err != nil || !ready && d.state.inventory.late(claim, d.class.profile) {
		d.useless = append(d.useless, claim)
	}
	if result.NodeSelector != nil {
		sel, err := nodeaffinity.NewNodeSelector(result.NodeSelector)
		if err != nil {
			return fmt.Sprintf("resourceclaim %q: %v", claim.Name, err)
		}
		d.bound = append(d.bound, sel)
	}
	return ""
}

// classless says which request of a claim names a class that does not exist; "": none.
func (x *deviceInventory) classless(claim *resourcev1.ResourceClaim) string {
	missing := func(request, class string) string {
		if resource.Get(x.st.read, kinds.DeviceClasses, "", class) == nil {
			return fmt.Sprintf("request %s: device class %s does not exist", request, class)
		}
		return ""
	}
	for _, r := range claim.Spec.Devices.Requests {
		if r.Exactly != nil {
			if why := missing(r.Name, r.Exactly.DeviceClassName); why != "" {
				return why
			}
		}
		for _, sub := range r.FirstAvailable {
			if why := missing(resourceclaim.CreateSubRequestRef(r.Name, sub.Name), sub.DeviceClassName); why != "" {
				return why
			}
		}
	}
	return ""
}

// deviceAllocator is the library's allocator for the present state; it is made anew when something changed.
func (x *deviceInventory) deviceAllocator() (structured.Allocator, error) {
	if x.at == x.epoch {
		return x.allocator, x.broken
	}
	rules := dra.Rules(x.st.read)
	list := resource.List(x.st.read, kinds.ResourceSlices, "")
	for i := range list {
		list[i] = dra.Tainted(list[i], rules)
	}
	x.allocator, x.broken = structured.NewAllocator(context.Background(), deviceFeatures, x.allocated(), classes{x.st.read}, list, x.cel)
	x.at = x.epoch
	return x.allocator, x.broken
}

// allocated is all that has been given out, promises counted.
func (x *deviceInventory) allocated() structured.AllocatedState {
	out := structured.AllocatedState{AllocatedDevices: sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](), AggregatedCapacity: structured.NewConsumedCapacityCollection()}
	count := func(r *resourcev1.AllocationResult) {
		for _, d := range r.Devices.Results {
			if d.AdminAccess != nil && *d.AdminAccess {
				continue // it shares with everybody
			}
			id := structured.MakeDeviceID(d.Driver, d.Pool, d.Device)
			if d.ShareID == nil {
				out.AllocatedDevices.Insert(id)
				continue
			}
			out.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, d.ShareID))
			out.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, d.ConsumedCapacity))
		}
	}
	for _, claim := range resource.List(x.st.read, kinds.ResourceClaims, "") {
		if claim.Status.Allocation != nil {
			count(claim.Status.Allocation)
		}
	}
	for _, r := range x.assumed {
		count(r)
	}
	return out
}

// classes lists device classes for the allocator.
type classes struct{ read resource.Reader }

// List implements structured.DeviceClassLister.
func (c classes) List() ([]*resourcev1.DeviceClass, error) {
	return resource.List(c.read, kinds.DeviceClasses, ""), nil
}

// Get implements structured.DeviceClassLister.
func (c classes) Get(name string) (*resourcev1.DeviceClass, error) {
	if k := resource.Get(c.read, kinds.DeviceClasses, "", name); k != nil {
		return k, nil
	}
	return nil, fmt.Errorf("deviceclass %q not found", name)
}

// refreshDevices looks the claims up again when something about devices changed.
func refreshDevices(c *podClass) {
	switch x := c.st.inventory; {
	case len(c.pod.Spec.ResourceClaims) == 0 && !c.asksForDevices():
		c.devices = nil
	case c.devices == nil || c.devEpoch != x.epoch:
		c.devices, c.devEpoch = x.of(c), x.epoch
	}
}

// checkDevices is the filter of the plugin DynamicResources.
func checkDevices(c *podClass, s *nodeInfo) *refusal {
	if c.devices == nil {
		return nil
	}
	return c.devices.check(s)
}

func (d *devices) check(s *nodeInfo) *refusal {
	if len(d.useless) > 0 {
		return otherDevices
	}
	for _, sel := range d.bound {
		if !sel.Match(s.node) {
			return otherDevices
		}
	}
	if claims := d.toAllocate(s); len(claims) > 0 {
		if _, r := d.allocate(s.node, claims); r != nil {
			return r
		}
	}
	return nil
}

// toAllocate are the claims that need devices on the node; the one for extended resources is the last.
func (d *devices) toAllocate(s *nodeInfo) []*resourcev1.ResourceClaim {
	if w := d.extendedOn(s); w != nil {
		return append(slices.Clone(d.open), w.claim)
	}
	return d.open
}

// allocate chooses devices for claims on a node.
func (d *devices) allocate(node *corev1.Node, claims []*resourcev1.ResourceClaim) ([]resourcev1.AllocationResult, *refusal) {
	ctx := d.state.ctx
	if limit := d.class.profile.deviceTime(); limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	results, err := d.allocator.Allocate(ctx, node, claims)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, slowDevices
	case errors.Is(err, structured.ErrFailedAllocationOnNode):
		return nil, &refusal{plugin: dynamicResources, reasons: []string{err.Error()}, unresolvable: true}
	case err != nil:
		d.failed = fmt.Errorf("running %q filter plugin: %w", dynamicResources, err)
		return nil, &refusal{plugin: dynamicResources, reasons: []string{err.Error()}, unresolvable: true}
	case results == nil:
		return nil, noDevices
	}
	return results, nil
}

// plan lists the claims to be written for one pod of the class to use its devices on the node; nil: none.
func (d *devices) plan(pod *corev1.Pod, s *nodeInfo) *devicePlan {
	p := &devicePlan{}
	if claims := d.toAllocate(s); len(claims) > 0 {
		results, _ := d.allocate(s.node, claims)
		for i := range results {
			p.claims, p.results = append(p.claims, claims[i]), append(p.results, &results[i])
		}
		if w := d.extendedOn(s); w != nil && len(results) > 0 {
			p.extended = w.forPod(pod)
			p.claims[len(p.claims)-1] = p.extended
			_, p.uses = requestsOf(pod, w.lacks, d.state.inventory.classFor)
		}
	}
	for _, claim := range d.have {
		if !resourceclaim.IsReservedForPod(pod, claim, false) {
			p.claims, p.results = append(p.claims, claim), append(p.results, nil)
		}
	}
	p.waits(d.have)
	if len(p.claims) == 0 && len(p.wait) == 0 {
		return nil
	}
	return p
}
