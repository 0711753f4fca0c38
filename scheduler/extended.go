package scheduler

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/resource"
)

// Extended resources that device classes stand for (KEP-5004): a pod asks for a number of them as it does for those of a device
// plugin. On a node that has none of its own they are devices: the scheduler makes one claim of them all for the pod.

// mayBeDevices says whether a resource can be one that a device class stands for.
func mayBeDevices(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), resourcev1.ResourceDeviceClassPrefix) || podspec.IsExtendedResource(name)
}

// classFor is the device class that stands for a resource; "": none. Of several that claim a name the newest has it.
func (x *deviceInventory) classFor(name corev1.ResourceName) string {
	if x.byResource == nil {
		x.byResource = map[corev1.ResourceName]string{}
		if x.st.read == nil {
			return ""
		}
		list := resource.List(x.st.read, kinds.DeviceClasses, "")
		slices.SortFunc(list, func(a, b *resourcev1.DeviceClass) int {
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(b.Name, a.Name))
		})
		for _, c := range list {
			x.byResource[corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix+c.Name)] = c.Name
			if n := c.Spec.ExtendedResourceName; n != nil {
				x.byResource[corev1.ResourceName(*n)] = c.Name
			}
		}
	}
	return x.byResource[name]
}

// byDevices says whether what the pod asks of a resource has to be devices on a node that has so much of it.
func (x *deviceInventory) byDevices(res int, alloc int64) bool {
	return res > resPods && alloc == 0 && mayBeDevices(x.st.resources.list[res]) && x.classFor(x.st.resources.list[res]) != ""
}

// asksForDevices says whether some of what the class's pods ask for could be devices.
func (c *podClass) asksForDevices() bool {
	return !c.noDevices && slices.ContainsFunc(c.need.asks, func(a ask) bool { return c.st.inventory.byDevices(a.res, 0) })
}

// An extendedClaim is the claim for the extended resources of a class on nodes that lack the same of them.
type extendedClaim struct {
	lacks []corev1.ResourceName
	claim *resourcev1.ResourceClaim // without a name
}

// extendedOn returns the claim that the class's pods need on a node for their extended resources; nil: none.
func (d *devices) extendedOn(s *nodeInfo) *extendedClaim {
	var lacks []corev1.ResourceName
	for _, a := range d.class.need.asks {
		if alloc, _ := s.room(a.res); d.state.inventory.byDevices(a.res, alloc) {
			lacks = append(lacks, d.state.resources.list[a.res])
		}
	}
	if len(lacks) == 0 {
		return nil
	}
	key := fmt.Sprint(lacks)
	w := d.extended[key]
	if w == nil {
		requests, _ := requestsOf(d.class.pod, lacks, d.state.inventory.classFor)
		w = &extendedClaim{lacks: lacks, claim: &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: d.class.pod.Namespace,
			Name: "<extended-resources>"},
			Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: requests}}}}
		d.extended[key] = w
	}
	return w
}

// extendedClaimUID stands for the claim for a pod's extended resources while there is none.
func extendedClaimUID(pod types.UID) types.UID { return "extended-resources/" + pod }

// forPod is the claim as it is to be made for a pod.
func (w *extendedClaim) forPod(p *corev1.Pod) *resourcev1.ResourceClaim {
	c := w.claim.DeepCopy()
	c.ObjectMeta = metav1.ObjectMeta{Namespace: p.Namespace, GenerateName: p.Name + "-extended-resources-", UID: extendedClaimUID(p.UID),
		Annotations:     map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: new(true)}}}
	return c
}

// requestsOf turns what containers ask of some resources into requests for devices, and says which container uses which.
// Containers that run to their end before others start use the devices of those, and what they need more is asked for once.
func requestsOf(p *corev1.Pod, names []corev1.ResourceName,
	class func(corev1.ResourceName) string) (list []resourcev1.DeviceRequest, uses []corev1.ContainerExtendedResourceRequest) {
	slices.Sort(names)
	all := slices.Concat(p.Spec.InitContainers, p.Spec.Containers)
	for _, name := range names {
		lasting := make([]*resourcev1.DeviceRequest, len(all))
		for i := range all {
			if !passing(p, i) {
				r, use := requestOf(i, &all[i], name, class(name), nil)
				lasting[i], uses = r, append(uses, use...)
			}
		}
		var most *resourcev1.DeviceRequest
		var own []string // requests of passing containers, which become one
		first := len(uses)
		for i := range all {
			if !passing(p, i) {
				continue
			}
			r, use := requestOf(i, &all[i], name, class(name), lasting[i:])
			uses = append(uses, use...)
			if r == nil {
				continue
			}
			own = append(own, r.Name)
			if most == nil || most.Exactly.Count < r.Exactly.Count {
				most = r
			}
		}
		for i := range uses[first:] {
			if u := &uses[first+i]; slices.Contains(own, u.RequestName) {
				u.RequestName = most.Name
			}
		}
		for _, r := range append(lasting, most) {
			if r != nil {
				list = append(list, *r)
			}
		}
	}
	coldsort.Func(list, func(a, b resourcev1.DeviceRequest) int { return strings.Compare(a.Name, b.Name) })
	return list, uses
}

// passing says whether a container, counted from the first init container, runs to its end before others start.
func passing(p *corev1.Pod, i int) bool {
	if i >= len(p.Spec.InitContainers) {
		return false
	}
	r := p.Spec.InitContainers[i].RestartPolicy
	return r == nil || *r != corev1.ContainerRestartPolicyAlways
}

// requestOf returns a container's request beyond what it may use of others; nil: nothing more.
func requestOf(i int, c *corev1.Container, name corev1.ResourceName, class string,
	others []*resourcev1.DeviceRequest) (*resourcev1.DeviceRequest, []corev1.ContainerExtendedResourceRequest) {
	q := c.Resources.Requests[name]
	want := q.Value()
	if want == 0 {
		return nil, nil
	}
	var uses []corev1.ContainerExtendedResourceRequest
	use := func(request string) {
		uses = append(uses, corev1.ContainerExtendedResourceRequest{ContainerName: c.Name, ResourceName: string(name), RequestName: request})
	}
	for _, o := range others {
		if o == nil {
			continue
		}
		use(o.Name)
		if want -= o.Exactly.Count; want <= 0 {
			return nil, uses
		}
	}
	place, _ := slices.BinarySearch(slices.Sorted(maps.Keys(c.Resources.Requests)), name)
	r := &resourcev1.DeviceRequest{Name: fmt.Sprintf("container-%d-request-%d", i, place), Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: want}}
	use(r.Name)
	return r, uses
}

// leftover is a claim for extended resources that an earlier try left behind, though nobody may have told of it yet; nil: there is none.
// What it holds may not suit any more.
func (x *deviceInventory) leftover(t *task) *resourcev1.ResourceClaim {
	if t.class.noDevices || x.st.read == nil {
		return nil
	}
	for obj := range x.st.read.ByOwner(kinds.ResourceClaims, string(t.pod.UID)) {
		if claim := obj.(*resourcev1.ResourceClaim); claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] == "true" &&
			metav1.IsControlledBy(claim, t.pod) {
			return claim
		}
	}
	return x.made[t.pod.UID]
}

// blocked is the failure of a task whose leftover has to go first.
func (x *deviceInventory) blocked() *failure {
	f := &failure{nodes: x.st.nodeCount, refused: make([]*refusal, len(x.st.nodes)), wakes: wakers()[dynamicResources]}
	for i, s := range x.st.nodes {
		f.refused[i] = oldClaim
		if s.node == nil {
			f.refused[i] = noNode
		}
	}
	return f
}
