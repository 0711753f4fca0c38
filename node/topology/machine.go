package topology

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"
)

// A Machine holds the CPUs and the memory of a machine, by place.
type Machine struct {
	CPUs   []CPU                     // by number
	Memory map[int]map[string]uint64 // bytes by NUMA node and by what: memory, hugepages-2Mi
	Far    map[int]map[int]int       // distances between NUMA nodes, as the firmware tells them: 10 is none
}

// A CPU is one that the kernel schedules on: a thread of a core.
type CPU struct {
	ID     int
	Core   int // the lowest CPU of its core
	Node   int // NUMA
	Socket int
}

// On machines of more than MaxNodes NUMA nodes nothing is aligned unless the settings allow more, at most MostNodes: all
// sets of them are tried.
const (
	MaxNodes  = 8
	MostNodes = 16
)

// Read reads the machine below sys, the mount point of sysfs. A kernel without NUMA has all on node 0.
func Read(sys string) (Machine, error) {
	m := Machine{Memory: map[int]map[string]uint64{}}
	online, err := readSet(filepath.Join(sys, "devices/system/cpu/online"))
	if err != nil {
		return m, fmt.Errorf("read which CPUs there are: %w", err)
	}
	node := map[int]int{}
	dirs, err := filepath.Glob(filepath.Join(sys, "devices/system/node/node[0-9]*"))
	if err != nil {
		return m, err
	}
	for _, dir := range dirs {
		n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), "node"))
		if err != nil {
			continue // another file
		}
		cpus, err := readSet(filepath.Join(dir, "cpulist"))
		if err != nil {
			return m, fmt.Errorf("read the CPUs of NUMA node %d: %w", n, err)
		}
		for _, id := range cpus.List() {
			node[id] = n
		}
		if m.Memory[n], err = readMemory(dir); err != nil {
			return m, fmt.Errorf("read the memory of NUMA node %d: %w", n, err)
		}
		if far := readDistances(dir); far != nil {
			if m.Far == nil {
				m.Far = map[int]map[int]int{}
			}
			m.Far[n] = far
		}
	}
	for _, id := range online.List() {
		c := CPU{ID: id, Core: id, Node: node[id]}
		place := filepath.Join(sys, "devices/system/cpu", "cpu"+strconv.Itoa(id), "topology")
		if c.Socket, err = readInt(filepath.Join(place, "physical_package_id")); err != nil {
			return m, fmt.Errorf("read the socket of CPU %d: %w", id, err)
		}
		if threads, err := readSet(filepath.Join(place, "thread_siblings_list")); err == nil && threads.Size() > 0 {
			c.Core = threads.List()[0]
		}
		m.CPUs = append(m.CPUs, c)
	}
	return m, nil
}

// readMemory reads the memory of a NUMA node. Memory in huge pages is no other memory.
func readMemory(dir string) (map[string]uint64, error) {
	text, err := os.ReadFile(filepath.Join(dir, "meminfo"))
	if err != nil {
		return nil, err
	}
	list := map[string]uint64{}
	for line := range strings.Lines(string(text)) { // Node 0 MemTotal:  16325676 kB
		if f := strings.Fields(line); len(f) >= 4 && f[2] == "MemTotal:" {
			kib, err := strconv.ParseUint(f[3], 10, 54)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", strings.TrimSpace(line), err)
			}
			list["memory"] = kib << 10
		}
	}
	pages, err := filepath.Glob(filepath.Join(dir, "hugepages/hugepages-*kB"))
	if err != nil {
		return nil, err
	}
	for _, p := range pages {
		kib, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(p), "hugepages-"), "kB"), 10, 32)
		if err != nil {
			continue
		}
		n, err := readInt(filepath.Join(p, "nr_hugepages"))
		if err != nil || n <= 0 {
			continue
		}
		bytes := kib << 10 * uint64(n)
		list[pageName(kib<<10)] = bytes
		list["memory"] -= min(list["memory"], bytes)
	}
	return list, nil
}

// readDistances reads how far other NUMA nodes are from one, in the order of all that are online. nil: the kernel does not tell.
func readDistances(dir string) map[int]int {
	online, err := readSet(filepath.Join(filepath.Dir(dir), "online"))
	text, terr := os.ReadFile(filepath.Join(dir, "distance"))
	f := strings.Fields(string(text))
	if err != nil || terr != nil || len(f) != online.Size() {
		return nil
	}
	far := map[int]int{}
	for i, n := range online.List() {
		if far[n], err = strconv.Atoi(f[i]); err != nil {
			return nil
		}
	}
	return far
}

// apart is the average distance between the nodes of a set, each from itself included.
func (m Machine) apart(on Mask) float64 {
	nodes, sum := on.Nodes(), 0
	for _, a := range nodes {
		for _, b := range nodes {
			sum += m.Far[a][b]
		}
	}
	return float64(sum) / float64(max(1, len(nodes)*len(nodes)))
}

// sockets counts those that the nodes of a set lie on.
func (m Machine) sockets(on Mask) int { return len(m.groups(m.On(on), socket)) }

// pageName is the resource of a size of huge pages: hugepages-2Mi.
func pageName(bytes uint64) string {
	for _, u := range []struct {
		shift uint
		name  string
	}{{30, "Gi"}, {20, "Mi"}} {
		if bytes>>u.shift > 0 {
			return "hugepages-" + strconv.FormatUint(bytes>>u.shift, 10) + u.name
		}
	}
	return "hugepages-" + strconv.FormatUint(bytes>>10, 10) + "Ki"
}

func readSet(path string) (cpuset.CPUSet, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return cpuset.New(), err
	}
	return cpuset.Parse(strings.TrimSpace(string(text)))
}

// readInt reads a number. A kernel that does not know it says nothing, or -1: that is 0.
func readInt(path string) (int, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	return max(n, 0), err
}

// All holds all CPUs.
func (m Machine) All() cpuset.CPUSet { return m.where(func(CPU) bool { return true }) }

// On holds the CPUs of some NUMA nodes.
func (m Machine) On(nodes Mask) cpuset.CPUSet {
	return m.where(func(c CPU) bool { return nodes.Has(c.Node) })
}

func (m Machine) where(ok func(c CPU) bool) cpuset.CPUSet {
	var ids []int
	for _, c := range m.CPUs {
		if ok(c) {
			ids = append(ids, c.ID)
		}
	}
	return cpuset.New(ids...)
}

// Nodes holds the NUMA nodes that have CPUs or memory.
func (m Machine) Nodes() (all Mask) {
	for _, c := range m.CPUs {
		all |= MaskOf(c.Node)
	}
	for n := range m.Memory {
		all |= MaskOf(n)
	}
	return all
}

// Threads counts the CPUs of a core: the most that any has.
func (m Machine) Threads() (n int) {
	count := map[int]int{}
	for _, c := range m.CPUs {
		count[c.Core]++
		n = max(n, count[c.Core])
	}
	return max(n, 1)
}

// groups sorts CPUs into sets of the same place, each in ascending order.
func (m Machine) groups(of cpuset.CPUSet, place func(c CPU) int) map[int][]int {
	by := map[int][]int{}
	for _, c := range m.CPUs {
		if of.Contains(c.ID) {
			by[place(c)] = append(by[place(c)], c.ID)
		}
	}
	return by
}

// masks lists all sets of the machine's nodes but the empty one, those of fewer nodes first.
func masks(all Mask) (list []Mask) {
	nodes := all.Nodes()
	nodes = nodes[:min(len(nodes), MostNodes)]
	for bits := 1; bits < 1<<len(nodes); bits++ {
		m := Mask(0)
		for i, n := range nodes {
			if bits&(1<<i) != 0 {
				m |= MaskOf(n)
			}
		}
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b Mask) int {
		switch {
		case a == b:
			return 0
		case a.narrower(b):
			return -1
		}
		return 1
	})
	return list
}
