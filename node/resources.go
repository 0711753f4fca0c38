package node

import (
	"fmt"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/node/cgroup"
)

// The kernel's CPU units: shares per CPU, and the period of quotas in microseconds.
const (
	sharesPerCPU = 1024
	minShares    = 2
	maxShares    = 262144
	quotaPeriod  = 100000
	minQuota     = 1000
)

// resources translates requests and limits to the kernel's terms.
func resources(pod *corev1.Pod, c *corev1.Container) *cri.LinuxContainerResources {
	r := &cri.LinuxContainerResources{CpuPeriod: quotaPeriod, OomScoreAdj: oomScore(pod, c)}
	request, limit := c.Resources.Requests.Cpu(), bound(pod, c, corev1.ResourceCPU)
	if _, asked := c.Resources.Requests[corev1.ResourceCPU]; !asked && !limit.IsZero() {
		request = limit
	}
	r.CpuShares = int64(*sharesOf(request.MilliValue()))
	if !limit.IsZero() {
		r.CpuQuota = max(limit.MilliValue()*quotaPeriod/1000, minQuota)
	}
	r.MemoryLimitInBytes = bound(pod, c, corev1.ResourceMemory).Value()
	if r.MemoryLimitInBytes > 0 {
		r.MemorySwapLimitInBytes = r.MemoryLimitInBytes // no swap
	}
	for name, q := range c.Resources.Limits {
		if size, ok := hugepage(name); ok {
			r.HugepageLimits = append(r.HugepageLimits, &cri.HugepageLimit{PageSize: size, Limit: uint64(q.Value())})
		}
	}
	return r
}

// sharesOf is the weight of thousandths of a CPU.
func sharesOf(milli int64) *uint64 {
	return new(uint64(min(max(milli*sharesPerCPU/1000, minShares), maxShares)))
}

// bound is the most that the container can have: its own limit, or that of the pod as a whole (KEP-2837).
func bound(pod *corev1.Pod, c *corev1.Container, name corev1.ResourceName) *apiresource.Quantity {
	q, own := c.Resources.Limits[name]
	if !own && pod.Spec.Resources != nil {
		q = pod.Spec.Resources.Limits[name]
	}
	return &q
}

func hugepage(name corev1.ResourceName) (size string, ok bool) {
	const prefix = corev1.ResourceHugePagesPrefix
	if len(name) <= len(prefix) || string(name[:len(prefix)]) != prefix {
		return "", false
	}
	size = string(name[len(prefix):])
	if n := len(size); n > 1 && size[n-1] == 'i' {
		size = size[:n-1] + "B" // 2Mi is 2MB to the kernel
	}
	return size, true
}

// oomScore orders containers for the kernel's killer: guaranteed pods last, best effort first, others by how much
// of what they asked for memory is of all there is.
func oomScore(pod *corev1.Pod, c *corev1.Container) int64 {
	const guaranteed, besteffort = -997, 1000
	switch {
	case pod.Status.QOSClass == corev1.PodQOSGuaranteed || critical(pod) && pod.Spec.PriorityClassName == "system-node-critical":
		return guaranteed
	case pod.Status.QOSClass == corev1.PodQOSBestEffort:
		return besteffort
	}
	total := totalMemory()
	if total == 0 {
		return 999
	}
	return burstableScore(pod, c, total)
}

// burstableScore gives what a pod requests as a whole beyond its containers to each of them alike. A sidecar is never killed before the
// main container that goes last.
func burstableScore(pod *corev1.Pod, c *corev1.Container, total int64) int64 {
	lasting, asked, extra := slices.Clone(pod.Spec.Containers), int64(0), int64(0)
	for _, i := range pod.Spec.InitContainers {
		if podspec.Sidecar(&i) {
			lasting = append(lasting, i)
		}
	}
	for i := range lasting {
		asked += lasting[i].Resources.Requests.Memory().Value()
	}
	if r := pod.Spec.Resources; r != nil && len(lasting) > 0 {
		extra = max(r.Requests.Memory().Value()-asked, 0) / int64(len(lasting))
	}
	score := func(c *corev1.Container) int64 {
		return min(max(1000-1000*(c.Resources.Requests.Memory().Value()+extra)/total, 3), 999)
	}
	lowest := score(c)
	if podspec.Sidecar(c) && slices.ContainsFunc(pod.Spec.InitContainers, func(i corev1.Container) bool { return i.Name == c.Name }) {
		for i := range pod.Spec.Containers {
			lowest = min(lowest, score(&pod.Spec.Containers[i]))
		}
	}
	return lowest
}

// totalMemory is the machine's memory in bytes; 0 when it can't be told.
func totalMemory() int64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	var kib int64
	if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kib); err != nil {
		return 0
	}
	return kib << 10
}

func is(b *bool) bool { return b != nil && *b }

// first is the first that is set.
func first[T any](list ...*T) *T {
	for _, p := range list {
		if p != nil {
			return p
		}
	}
	return nil
}

// podValues are the limits of the pod's own cgroup: what its containers may have together. A limit is there only if the pod has one, or
// every container has.
func podValues(pod *corev1.Pod) cgroup.Values {
	opts := podresource.PodResourcesOptions{}
	asks, limits := podresource.PodRequests(pod, opts), podresource.PodLimits(pod, opts)
	none := int64(-1)
	v := cgroup.Values{Shares: sharesOf(asks.Cpu().MilliValue()), Quota: &none, Memory: &none}
	if q := limits.Cpu(); bounded(pod, corev1.ResourceCPU) && !q.IsZero() {
		v.Quota = new(max(q.MilliValue()*quotaPeriod/1000, minQuota))
	}
	if q := limits.Memory(); bounded(pod, corev1.ResourceMemory) && !q.IsZero() {
		v.Memory = new(q.Value())
	}
	return v
}

// bounded says that the pod as a whole can't have more than some amount.
func bounded(pod *corev1.Pod, name corev1.ResourceName) bool {
	if pod.Spec.Resources != nil {
		if q, ok := pod.Spec.Resources.Limits[name]; ok && !q.IsZero() {
			return true
		}
	}
	for _, l := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range l {
			if q, ok := l[i].Resources.Limits[name]; !ok || q.IsZero() {
				return false
			}
		}
	}
	return true
}

// loosest joins two states of a group so that what runs fits in both: a resize goes through it.
func loosest(a, b cgroup.Values) cgroup.Values {
	return cgroup.Values{Shares: new(max(*a.Shares, *b.Shares)), Quota: larger(a.Quota, b.Quota), Memory: larger(a.Memory, b.Memory)}
}

func larger(a, b *int64) *int64 {
	if *a < 0 || *b < 0 {
		return new(int64(-1))
	}
	return new(max(*a, *b))
}
