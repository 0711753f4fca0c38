package node

import (
	"os"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	podresource "k8s.io/component-helpers/resource"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/node/cgroup"
	"github.com/kloop-dev/kloop/node/pressure"
)

// terms are the node's own: what its configuration and its kernel make of the resources of pods and containers.
type terms struct {
	Resources
	unified      bool    // cgroup version 2
	memory, swap int64   // of the machine, bytes
	allocatable  int64   // bytes of memory that pods can have
	pages        []int64 // sizes of huge pages, bytes

	exclusive func(types.UID) bool // says which pods have CPUs for themselves; nil: none
}

// newTerms reads what the machine has.
func newTerms(cfg Config, tree *cgroup.Tree, allocatable corev1.ResourceList) terms {
	t := terms{Resources: cfg.Resources, unified: tree.Unified(), memory: totalMemory(), pages: hugeSizes(hugePagesDir),
		allocatable: allocatable.Memory().Value()}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		t.swap = int64(pressure.MemInfo(string(text))["SwapTotal"])
	}
	return t
}

// pod are the limits of the pod's own cgroup.
func (t terms) pod(pod *corev1.Pod) cgroup.Values {
	v := podValues(pod)
	if t.PodPidsLimit > 0 {
		v.Pids = &t.PodPidsLimit
	}
	if t.exclusive != nil && t.exclusive(pod.UID) {
		v.Quota = new(int64(-1))
	}
	opts := podresource.PodResourcesOptions{}
	asks, limits := podresource.PodRequests(pod, opts), podresource.PodLimits(pod, opts)
	v.Huge = map[string]int64{}
	for _, size := range t.pages { // of what it does not ask for it gets none
		v.Huge[hugeName(size)] = 0
	}
	for name, q := range limits {
		if size, ok := hugepage(name); ok {
			v.Huge[size] = q.Value()
		}
	}
	if t.unified {
		v.Min, v.Low = t.keeps(pod.Status.QOSClass, asks.Memory().Value())
		v.High = new(int64(-1))
		if bounds(pod) {
			v.High = t.high(pod, asks.Memory().Value(), *v.Memory)
		}
	}
	return v
}

// bounds says that the pod as a whole has a limit of memory of its own.
func bounds(pod *corev1.Pod) bool {
	return pod.Spec.Resources != nil && !pod.Spec.Resources.Limits.Memory().IsZero()
}

// keeps tells how much memory the kernel keeps for what requests so much: without exception, or as long as it can. Zero takes back what was
// set before.
func (t terms) keeps(class corev1.PodQOSClass, request int64) (minimum, low *int64) {
	minimum, low = new(int64), new(int64)
	switch {
	case !t.TieredReservation:
	case class == corev1.PodQOSGuaranteed:
		*minimum = request
	case class == corev1.PodQOSBurstable:
		*low = request
	}
	return minimum, low
}

// high tells from where on the kernel slows down: between request and limit, in whole pages. -1: nowhere. Guaranteed pods have their
// limit at their request.
func (t terms) high(pod *corev1.Pod, request, limit int64) *int64 {
	if t.MemoryThrottlingFactor <= 0 || pod.Status.QOSClass == corev1.PodQOSGuaranteed || limit <= request {
		return new(int64(-1))
	}
	page := int64(os.Getpagesize())
	return new((request + int64(t.MemoryThrottlingFactor*float64(limit-request))) / page * page)
}

// container are the kernel's limits of a container.
func (t terms) container(pod *corev1.Pod, c *corev1.Container) *cri.LinuxContainerResources {
	r := resources(pod, c)
	if !t.unified {
		return r
	}
	request := c.Resources.Requests.Memory().Value()
	minimum, low := t.keeps(pod.Status.QOSClass, request)
	r.Unified = map[string]string{
		"memory.oom.group": "1", // a container dies as a whole
		"memory.min":       strconv.FormatInt(*minimum, 10), "memory.low": strconv.FormatInt(*low, 10), "memory.high": "max",
	}
	if t.swap > 0 { // without, the kernel may not even count swap
		r.Unified["memory.swap.max"], r.MemorySwapLimitInBytes = strconv.FormatInt(t.swapOf(pod, c), 10), 0
	}
	limit := r.MemoryLimitInBytes
	if limit == 0 {
		limit = t.allocatable
	}
	if _, own := c.Resources.Limits[corev1.ResourceMemory]; own || !bounds(pod) {
		if high := *t.high(pod, request, limit); high > 0 {
			r.Unified["memory.high"] = strconv.FormatInt(high, 10)
		}
	}
	return r
}

// swapOf tells how much swap a container may use, in bytes: its share of the machine's, as its request is of the memory (KEP-2400).
// Guaranteed, best effort and critical pods use none, nor do containers that can't have more memory than they request.
func (t terms) swapOf(pod *corev1.Pod, c *corev1.Container) int64 {
	request, limit := c.Resources.Requests.Memory().Value(), c.Resources.Limits.Memory().Value()
	if !t.LimitedSwap || t.memory == 0 || pod.Status.QOSClass != corev1.PodQOSBurstable || critical(pod) || request == limit {
		return 0
	}
	return int64(float64(request) / float64(t.memory) * float64(t.swap))
}
