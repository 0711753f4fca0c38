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
	fairCPU    = 100
	fairMemory = 200 * 1024 * 1024
)

// names numbers resources.
type names struct {
	index map[corev1.ResourceName]int
	list  []corev1.ResourceName
}

func newNames() *names {
	n := &names{index: map[corev1.ResourceName]int{}}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods} {
		n.of(name)
	}
	return n
}

func (n *names) of(name corev1.ResourceName) int {
	i, ok := n.index[name]
	if !ok {
		i = len(n.list)
		n.index[name] = i
		n.list = append(n.list, name)
	}
	return i
}

// vector turns a list of quantities into amounts by number.
func (n *names) vector(list corev1.ResourceList) []int64 {
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

// An ask is how much of one resource a pod needs.
type ask struct {
	res    int
	amount int64
}

// A need is all that a pod takes from a node.
type need struct {
	asks     []ask // above zero, by number
	cpu, mem int64 // as asked for
	// The same with the defaults for containers that ask for nothing.
	fairCPU, fairMem int64
	ports            []port
}

// needOf computes what the pod takes: init containers, sidecars, overhead, requests of the whole pod and a
// resize on its way included.
func needOf(p *corev1.Pod, n *names) *need {
	opts := podresource.PodResourcesOptions{UseStatusResources: true}
	total := n.vector(podresource.PodRequests(p, opts))
	opts.NonMissingContainerRequests = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(fairCPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(fairMemory, resource.BinarySI)}
	fair := n.vector(podresource.PodRequests(p, opts))
	out := &need{cpu: total[resCPU], mem: total[resMemory], fairCPU: fair[resCPU], fairMem: fair[resMemory], ports: portsOf(p)}
	for i, a := range total {
		if a > 0 {
			out.asks = append(out.asks, ask{i, a})
		}
	}
	return out
}

// add changes the slot's sums by a pod's need, sign times.
func (s *slot) add(d *need, sign int64) {
	for _, a := range d.asks {
		for len(s.used) <= a.res {
			s.used = append(s.used, 0)
		}
		s.used[a.res] += sign * a.amount
	}
	s.used[resPods] += sign
	s.fairCPU += sign * d.fairCPU
	s.fairMem += sign * d.fairMem
	for _, p := range d.ports {
		s.takePort(p, int(sign))
	}
}

func (s *slot) room(res int) (alloc, used int64) {
	if res < len(s.alloc) {
		alloc = s.alloc[res]
	}
	if res < len(s.used) {
		used = s.used[res]
	}
	return alloc, used
}
