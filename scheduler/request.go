package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"
)

// Places of the resources that every node has; others get the next numbers as they are met.
const (
	resCPU = iota // milli-cores; all other resources are in their own units
	resMemory
	resStorage
	resPods
)

// What a container that asks for nothing counts as when nodes are ranked, so that such pods spread too.
const (
	defaultCPURequest    = 100
	defaultMemoryRequest = 200 * 1024 * 1024
)

// resourceIndex numbers resources, so that amounts are an array.
type resourceIndex struct {
	index map[corev1.ResourceName]int
	list  []corev1.ResourceName
}

func newResourceIndex() *resourceIndex {
	n := &resourceIndex{index: map[corev1.ResourceName]int{}}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage,
		corev1.ResourcePods} {
		n.of(name)
	}
	return n
}

func (n *resourceIndex) of(name corev1.ResourceName) int {
	i, ok := n.index[name]
	if !ok {
		i = len(n.list)
		n.index[name] = i
		n.list = append(n.list, name)
	}
	return i
}

// vector turns a list of quantities into amounts by number.
func (n *resourceIndex) vector(list corev1.ResourceList) []int64 {
	v := make([]int64, len(n.list), len(n.list)+1)
	for name, q := range list {
		i := n.of(name)
		for len(v) <= i {
			v = append(v, 0)
		}
		v[i] = amount(name, q)
	}
	return v
}

func amount(name corev1.ResourceName, q resource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// An ask is an amount of one resource that a pod needs.
type ask struct {
	res    int
	amount int64
}

// A need is all that a pod takes from a node.
type need struct {
	asks     []ask // above zero, by number
	cpu, mem int64 // as asked for
	// The same with the defaults for containers that ask for nothing.
	nonZeroCPU, nonZeroMem int64
	ports                  []port
}

// needOf computes what the pod takes: init containers, sidecars, overhead, requests of the whole pod and a
// resize on its way included.
func needOf(p *corev1.Pod, n *resourceIndex) *need {
	total, fair := n.requests(p)
	out := &need{cpu: total[resCPU], mem: total[resMemory], nonZeroCPU: fair[resCPU], nonZeroMem: fair[resMemory], ports: portsOf(p)}
	for i, a := range total {
		if a > 0 {
			out.asks = append(out.asks, ask{i, a})
		}
	}
	return out
}

// requests returns what the pod asks for in all, and the same with the defaults for containers that ask for nothing.
func (n *resourceIndex) requests(p *corev1.Pod) (total, fair []int64) {
	// What the agent reports is asked for only where it may differ: three sums are made of it.
	opts := podresource.PodResourcesOptions{UseStatusResources: resizing(p)}
	if !opts.UseStatusResources && len(p.Spec.InitContainers)+len(p.Spec.Overhead) == 0 && p.Spec.Resources == nil {
		return n.sums(p.Spec.Containers)
	}
	total = n.vector(podresource.PodRequests(p, opts))
	opts.NonMissingContainerRequests = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(defaultCPURequest,
		resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(defaultMemoryRequest, resource.BinarySI)}
	return total, n.vector(podresource.PodRequests(p, opts))
}

// sums is requests for a pod that is nothing but its containers, as most are: without the maps that the library makes.
func (n *resourceIndex) sums(list []corev1.Container) (total, fair []int64) {
	all, missing := make([]resource.Quantity, len(n.list), len(n.list)+1), [...]int64{resCPU: 0, resMemory: 0}
	for i := range list {
		asked := list[i].Resources.Requests
		for name, q := range asked {
			k := n.of(name)
			for len(all) <= k {
				all = append(all, resource.Quantity{})
			}
			all[k].Add(q)
		}
		if _, given := asked[corev1.ResourceCPU]; !given {
			missing[resCPU] += defaultCPURequest
		}
		if _, given := asked[corev1.ResourceMemory]; !given {
			missing[resMemory] += defaultMemoryRequest
		}
	}
	total = make([]int64, len(all))
	for k := range all {
		total[k] = amount(n.list[k], all[k])
	}
	return total, []int64{resCPU: total[resCPU] + missing[resCPU], resMemory: total[resMemory] + missing[resMemory]}
}

// add changes the node's sums by a pod's requests, sign times.
func (s *nodeInfo) add(d *need, sign int64) {
	for _, a := range d.asks {
		for len(s.requested) <= a.res {
			s.requested = append(s.requested, 0)
		}
		s.requested[a.res] += sign * a.amount
	}
	s.requested[resPods] += sign
	s.nonZeroCPU += sign * d.nonZeroCPU
	s.nonZeroMem += sign * d.nonZeroMem
	for _, p := range d.ports {
		s.takePort(p, int(sign))
	}
}

func (s *nodeInfo) room(res int) (alloc, used int64) {
	if res < len(s.allocatable) {
		alloc = s.allocatable[res]
	}
	if res < len(s.requested) {
		used = s.requested[res]
	}
	return alloc, used
}
