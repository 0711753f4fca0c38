package topology

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"github.com/kloop-dev/kloop/kinds/podspec"
)

// Settings say what a node's CPU, memory and topology managers do. The zero value has all CPUs and all memory shared.
type Settings struct {
	Policy        Policy // "": None
	PreferClosest bool   // prefer-closest-numa-nodes: of equally many NUMA nodes those that are nearer to each other
	MaxNodes      int    // max-allowable-numa-nodes: of a machine on which anything is aligned; 0: MaxNodes
	PodScope      bool   // a pod's containers lie together; else each by itself

	StaticCPUs bool // Guaranteed containers that ask for whole CPUs have them for themselves
	CPUs       CPUOptions
	// ReservedCPUs are for the system, as 0-1,4; "": as many as ReservedCPU asks for are chosen.
	ReservedCPUs string
	ReservedCPU  int64 // thousandths of CPUs that pods do not get

	StaticMemory   bool                      // Guaranteed containers have memory of few NUMA nodes
	ReservedMemory map[int]map[string]uint64 // bytes that pods do not get, by node and kind
}

// On says that anything is given exclusively.
func (s Settings) On() bool { return s.StaticCPUs || s.StaticMemory }

// Ask holds what one container asks for that can be given exclusively.
type Ask struct {
	CPUs   int               // 0: it shares
	Memory map[string]uint64 // bytes by kind; nil: it shares
}

// AskOf reads what a container asks for: only those of Guaranteed pods have anything for themselves.
func (s Settings) AskOf(pod *corev1.Pod, c *corev1.Container) (a Ask) {
	if pod.Status.QOSClass != corev1.PodQOSGuaranteed || pod.Spec.Resources != nil {
		return a
	}
	if q := c.Resources.Requests.Cpu(); s.StaticCPUs && q.Value()*1000 == q.MilliValue() {
		a.CPUs = int(q.Value())
	}
	if !s.StaticMemory {
		return a
	}
	a.Memory = map[string]uint64{}
	for name, q := range c.Resources.Requests {
		if huge := len(name) > len(corev1.ResourceHugePagesPrefix) && name[:len(corev1.ResourceHugePagesPrefix)] ==
			corev1.ResourceHugePagesPrefix; (huge || name == corev1.ResourceMemory) && q.Value() > 0 {
			a.Memory[string(name)] = uint64(q.Value())
		}
	}
	return a
}

// AskOfPod sums what a pod's containers ask for at the same time: the plain init containers one after the other, before the main ones.
func (s Settings) AskOfPod(pod *corev1.Pod) Ask {
	all := Ask{Memory: map[string]uint64{}}
	first := Ask{Memory: map[string]uint64{}} // of init containers: the most that run at once
	add := func(to *Ask, a Ask) {
		to.CPUs += a.CPUs
		for kind, n := range a.Memory {
			to.Memory[kind] += n
		}
	}
	for i := range pod.Spec.InitContainers {
		a := s.AskOf(pod, &pod.Spec.InitContainers[i])
		if podspec.Sidecar(&pod.Spec.InitContainers[i]) {
			add(&all, a)
			continue
		}
		first.CPUs = max(first.CPUs, all.CPUs+a.CPUs)
		for kind, n := range a.Memory {
			first.Memory[kind] = max(first.Memory[kind], all.Memory[kind]+n)
		}
	}
	for i := range pod.Spec.Containers {
		add(&all, s.AskOf(pod, &pod.Spec.Containers[i]))
	}
	all.CPUs = max(all.CPUs, first.CPUs)
	for kind, n := range first.Memory {
		all.Memory[kind] = max(all.Memory[kind], n)
	}
	return all
}

// ErrSMT is why a pod is refused that asks for a part of a core where only whole cores are given.
type ErrSMT struct{ CPUs, PerCore int }

// Error is in the kubelet's words.
func (e ErrSMT) Error() string {
	return fmt.Sprintf("SMT Alignment Error: requested %d cpus not multiple cpus per core = %d", e.CPUs, e.PerCore)
}

// An Assignment holds the CPUs and the memory that one container has for itself.
type Assignment struct {
	CPUs   cpuset.CPUSet
	Memory []Block
}

// Assignments are the containers' by pod and name.
type Assignments map[types.UID]map[string]Assignment

// A Choice is all that the choice for one container depends on, beside devices. It is a value: choosing changes nothing.
type Choice struct {
	Machine  Machine
	Settings Settings
	Reserved cpuset.CPUSet
	Have     Assignments
	Spare    Assignment // of the pod's init containers that have ended when this one starts
}

// Check says why a request can't be met on this machine, however free it is.
func (c Choice) Check(a Ask) error {
	if per := c.Machine.Threads(); c.Settings.CPUs.FullPCPUsOnly && a.CPUs%per != 0 {
		return ErrSMT{a.CPUs, per}
	}
	return nil
}

// free are the CPUs that the container can have.
func (c Choice) free() cpuset.CPUSet {
	set := c.Machine.All().Difference(c.Reserved)
	for _, containers := range c.Have {
		for _, a := range containers {
			set = set.Difference(a.CPUs)
		}
	}
	return set.Union(c.Spare.CPUs)
}

func (c Choice) stock() Stock {
	s := Stock{Machine: c.Machine, Reserved: c.Settings.ReservedMemory}
	for _, containers := range c.Have {
		for _, a := range containers {
			s.Taken = append(s.Taken, a.Memory...)
		}
	}
	return s
}

// Hints are the places where a container's requests can be met, one list for each.
func (c Choice) Hints(a Ask) (list []Hints) {
	if a.CPUs > 0 {
		free, all := c.free(), c.Machine.All().Difference(c.Reserved)
		if c.Settings.CPUs.FullPCPUsOnly {
			free = c.Machine.wholeCores(free)
		}
		has := func(m Mask) bool { return all.Intersection(c.Machine.On(m)).Size() >= a.CPUs }
		hints := Fits(c.Machine.Nodes(), has, func(m Mask) bool {
			on := c.Machine.On(m)
			return free.Intersection(on).Size() >= a.CPUs && c.Spare.CPUs.IsSubsetOf(on)
		})
		if c.Settings.CPUs.AlignBySocket {
			c.Machine.preferSockets(hints, has)
		}
		list = append(list, hints)
	}
	if len(a.Memory) > 0 {
		list = append(list, c.stock().Hints(a.Memory))
	}
	return list
}

// Take chooses what a container gets, near some nodes if that is not 0.
func (c Choice) Take(a Ask, near Mask) (got Assignment, err error) {
	if err := c.Check(a); err != nil {
		return got, err
	}
	if a.CPUs > 0 {
		if got.CPUs, err = c.takeCPUs(a.CPUs, near); err != nil {
			return got, err
		}
	}
	if len(a.Memory) > 0 {
		got.Memory, err = c.stock().Take(a.Memory, near)
	}
	return got, err
}

// takeCPUs takes as many as it can near, and the rest anywhere.
func (c Choice) takeCPUs(n int, near Mask) (cpuset.CPUSet, error) {
	free := c.free()
	got := cpuset.New()
	if spare := c.Spare.CPUs; spare.Size() >= n {
		return c.Machine.TakeCPUs(spare, n, c.Settings.CPUs)
	}
	if near != 0 {
		here := free.Intersection(c.Machine.On(near))
		if c.Settings.CPUs.FullPCPUsOnly {
			here = c.Machine.wholeCores(here)
		}
		set, err := c.Machine.TakeCPUs(here, min(n, here.Size()), c.Settings.CPUs)
		if err != nil {
			return got, err
		}
		got = set
	}
	if got.Size() == n {
		return got, nil
	}
	rest, err := c.Machine.TakeCPUs(free.Difference(got), n-got.Size(), c.Settings.CPUs)
	return got.Union(rest), err
}
