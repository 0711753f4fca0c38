package node

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"

	"github.com/kloop-dev/kloop/node/pressure"
)

// Resources say what a node keeps from its pods, and how it limits them. The names are those of the kubelet's configuration. The zero
// value keeps nothing.
type Resources struct {
	// SystemReserved and KubeReserved are amounts of cpu, memory, ephemeral-storage and pid that pods do not get.
	SystemReserved, KubeReserved corev1.ResourceList
	// ReservedSystemCPUs names CPUs for the system, as 0-1,4; their number takes the place of the reserved amounts of cpu.
	ReservedSystemCPUs string

	PodPidsLimit int64 // processes of one pod; 0: no limit

	// LimitedSwap lets Burstable pods use a share of the machine's swap, by what they request of its memory. Only with cgroup version 2.
	LimitedSwap bool

	// TieredReservation has the kernel keep the memory that pods request: for Guaranteed pods without exception, for Burstable ones as
	// long as it can. Only with cgroup version 2.
	TieredReservation bool
	// MemoryThrottlingFactor is the share between request and limit from which on a container's memory is slowed down, above 0 and at
	// most 1; 0: never. Only with cgroup version 2.
	MemoryThrottlingFactor float64
}

// Pid is the name of processes in the kubelet's reserved amounts.
const Pid corev1.ResourceName = "pid"

// reserved sums what pods do not get.
func (r Resources) reserved() corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, list := range []corev1.ResourceList{r.SystemReserved, r.KubeReserved} {
		for name, q := range list {
			s := sum[name]
			s.Add(q)
			sum[name] = s
		}
	}
	if n := countCPUs(r.ReservedSystemCPUs); n > 0 {
		sum[corev1.ResourceCPU] = *apiresource.NewQuantity(n, apiresource.DecimalSI)
	}
	return sum
}

// countCPUs counts the CPUs of a list such as 0-1,4. The configuration has been checked: a part that can't be read counts as none.
func countCPUs(list string) (n int64) {
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			last = first
		}
		a, err1 := strconv.ParseInt(first, 10, 32)
		b, err2 := strconv.ParseInt(last, 10, 32)
		if err1 == nil && err2 == nil && b >= a {
			n += b - a + 1
		}
	}
	return n
}

// spare counts what pods can have (Node Allocatable): the machine's capacity without what is reserved and without what the hard eviction
// thresholds keep free. Memory in huge pages is theirs alone.
func spare(capacity, reserved corev1.ResourceList, hard []pressure.Threshold) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, q := range capacity {
		left := q.DeepCopy()
		left.Sub(reserved[name])
		for _, t := range hard {
			if t.Grace == 0 && evictionKeeps[t.Signal] == name {
				left.Sub(*apiresource.NewQuantity(t.Of(q.Value()), apiresource.BinarySI))
			}
		}
		if name == corev1.ResourceMemory {
			for page, all := range capacity {
				if strings.HasPrefix(string(page), corev1.ResourceHugePagesPrefix) {
					left.Sub(all)
				}
			}
		}
		if left.Sign() < 0 {
			left.Set(0)
		}
		out[name] = left
	}
	return out
}

// evictionKeeps names the resources that hard eviction thresholds keep free.
var evictionKeeps = map[pressure.Signal]corev1.ResourceName{
	pressure.MemoryAvailable: corev1.ResourceMemory, pressure.NodefsAvailable: corev1.ResourceEphemeralStorage}

// hugePagesDir lists the sizes of huge pages that the kernel knows.
const hugePagesDir = "/sys/kernel/mm/hugepages"

// hugePages counts the machine's huge pages: bytes by the name of the resource.
func hugePages(dir string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for _, size := range hugeSizes(dir) {
		n, _ := strconv.ParseInt(firstLine(filepath.Join(dir, hugeDir(size), "nr_hugepages")), 10, 64) // what can't be read is none
		name := corev1.ResourceHugePagesPrefix + apiresource.NewQuantity(size, apiresource.BinarySI).String()
		list[corev1.ResourceName(name)] = *apiresource.NewQuantity(n*size, apiresource.BinarySI)
	}
	return list
}

func hugeDir(size int64) string { return "hugepages-" + strconv.FormatInt(size>>10, 10) + "kB" }

// hugeSizes are the sizes of huge pages that the machine knows, in bytes.
func hugeSizes(dir string) (list []int64) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // a kernel without huge pages
	}
	for _, e := range entries {
		text := strings.TrimSuffix(strings.TrimPrefix(e.Name(), "hugepages-"), "kB")
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			list = append(list, n<<10)
		}
	}
	slices.Sort(list)
	return list
}

// hugeName is the kernel's name of a size of huge pages in cgroups: 2MB, 1GB.
func hugeName(size int64) string {
	for _, unit := range []struct {
		bytes int64
		name  string
	}{{1 << 30, "GB"}, {1 << 20, "MB"}} {
		if size >= unit.bytes {
			return strconv.FormatInt(size/unit.bytes, 10) + unit.name
		}
	}
	return strconv.FormatInt(size>>10, 10) + "KB"
}
