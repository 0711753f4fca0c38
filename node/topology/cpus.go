package topology

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/utils/cpuset"
)

// CPUOptions are those of the static CPU manager, by the kubelet's names.
type CPUOptions struct {
	FullPCPUsOnly            bool // full-pcpus-only: a core is never shared between containers
	DistributeCPUsAcrossNUMA bool // distribute-cpus-across-numa: what does not fit on one node is spread evenly
	AlignBySocket            bool // align-by-socket: all NUMA nodes of as few sockets as can be are equally good
	StrictCPUReservation     bool // strict-cpu-reservation: pods do not run on reserved CPUs at all
}

// TakeCPUs chooses n of the free CPUs: whole sockets, NUMA nodes and cores first, and near each other.
func (m Machine) TakeCPUs(free cpuset.CPUSet, n int, o CPUOptions) (cpuset.CPUSet, error) {
	if free = free.Intersection(m.All()); free.Size() < n {
		return cpuset.New(), fmt.Errorf("not enough cpus available to satisfy request: requested=%d, available=%d", n, free.Size())
	}
	if n <= 0 {
		return cpuset.New(), nil
	}
	if o.FullPCPUsOnly {
		if free = m.wholeCores(free); free.Size() < n {
			return cpuset.New(), fmt.Errorf("SMT Alignment Error: not enough free physical CPUs: available physical CPUs = %d, requested CPUs = "+
				"%d, CPUs per core = %d", free.Size(), n, m.Threads())
		}
	}
	if o.DistributeCPUsAcrossNUMA {
		if set, ok := m.distribute(free, n, o); ok {
			return set, nil
		}
	}
	return m.pack(free, n), nil
}

// preferSockets prefers hints of as few sockets as the request needs, however many NUMA nodes they have. has says which nodes can ever
// hold the request.
func (m Machine) preferSockets(list Hints, has func(Mask) bool) {
	all := m.Nodes()
	each := all.Count() / max(1, m.sockets(all)) // NUMA nodes of a socket
	for _, least := range masks(all) {
		if has(least) {
			for i := range list {
				if each > 0 && m.sockets(list[i].On) == (least.Count()+each-1)/each {
					list[i].Preferred = true
				}
			}
			return
		}
	}
}

// wholeCores leaves out the CPUs of cores that are taken in part.
func (m Machine) wholeCores(free cpuset.CPUSet) cpuset.CPUSet {
	all, have := m.groups(m.All(), core), m.groups(free, core)
	return m.where(func(c CPU) bool { return free.Contains(c.ID) && len(have[c.Core]) == len(all[c.Core]) })
}

func core(c CPU) int   { return c.Core }
func node(c CPU) int   { return c.Node }
func socket(c CPU) int { return c.Socket }

// pack takes the largest whole pieces that still fit, and the rest where it leaves the smallest remains. There are n free.
func (m Machine) pack(free cpuset.CPUSet, n int) cpuset.CPUSet {
	taken := cpuset.New()
	if on := m.roomy(free, n); on >= 0 {
		free = cpuset.New(m.groups(free, node)[on]...)
	}
	larger, smaller := socket, node // of most machines; on some a node holds several sockets
	if len(m.groups(m.All(), node)) < len(m.groups(m.All(), socket)) {
		larger, smaller = node, socket
	}
	for _, place := range []func(CPU) int{larger, smaller, core} {
		whole := m.groups(m.All(), place)
		for taken.Size() < n {
			piece := m.bestPiece(free.Difference(taken), taken, n-taken.Size(), place, whole)
			if piece.IsEmpty() {
				break
			}
			taken = taken.Union(piece)
		}
	}
	rest := free.Difference(taken)
	list := m.rank(rest, taken, n-taken.Size(), rest.List())
	return taken.Union(cpuset.New(list[:n-taken.Size()]...))
}

// roomy is the fullest NUMA node on which n CPUs are free; -1: there is none.
func (m Machine) roomy(free cpuset.CPUSet, n int) int {
	best, have := -1, m.groups(free, node)
	for _, k := range slices.Sorted(maps.Keys(have)) {
		if len(have[k]) >= n && (best < 0 || len(have[k]) < len(have[best])) {
			best = k
		}
	}
	return best
}

// bestPiece is the best of the free whole pieces of at most n CPUs; empty: there is none.
func (m Machine) bestPiece(free, taken cpuset.CPUSet, n int, place func(CPU) int, whole map[int][]int) cpuset.CPUSet {
	have := m.groups(free, place)
	var fit []int
	for key, ids := range have {
		if len(ids) == len(whole[key]) && len(ids) <= n {
			fit = append(fit, ids[0])
		}
	}
	if len(fit) == 0 {
		return cpuset.New()
	}
	return cpuset.New(have[place(m.cpu(m.rank(free, taken, n, fit)[0]))]...)
}

// rank orders CPUs: those of nodes and sockets that hold some of what is taken already, then those where the rest fits and little else
// is free, then those of broken cores.
func (m Machine) rank(free, taken cpuset.CPUSet, n int, ids []int) []int {
	nodes, sockets, cores := m.groups(free, node), m.groups(free, socket), m.groups(free, core)
	onNodes, onSockets := m.groups(taken, node), m.groups(taken, socket)
	size := func(free int) int { // of remains: what can't hold the rest comes last, the fullest of them first
		if free >= n {
			return free - n
		}
		return 1<<20 + n - free
	}
	return slices.SortedFunc(slices.Values(ids), func(x, y int) int {
		a, b := m.cpu(x), m.cpu(y)
		return cmp.Or(
			cmp.Compare(len(onNodes[b.Node]), len(onNodes[a.Node])),
			cmp.Compare(len(onSockets[b.Socket]), len(onSockets[a.Socket])),
			cmp.Compare(size(len(nodes[a.Node])), size(len(nodes[b.Node]))),
			cmp.Compare(size(len(sockets[a.Socket])), size(len(sockets[b.Socket]))),
			cmp.Compare(len(cores[a.Core]), len(cores[b.Core])),
			cmp.Compare(a.ID, b.ID))
	})
}

func (m Machine) cpu(id int) CPU {
	i, _ := slices.BinarySearchFunc(m.CPUs, id, func(c CPU, id int) int { return c.ID - id })
	return m.CPUs[i]
}

// distribute spreads CPUs evenly over as few NUMA nodes as can hold them, if one can't. Of equal sets of nodes the one is best that
// leaves the nodes most alike.
func (m Machine) distribute(free cpuset.CPUSet, n int, o CPUOptions) (best cpuset.CPUSet, ok bool) {
	unit := 1
	if o.FullPCPUsOnly {
		unit = m.Threads()
	}
	have := m.groups(free, node)
	least := 0.0
	for _, set := range masks(m.Nodes()) {
		if ok && set.Count() > m.spread(best).Count() {
			break
		}
		share, fits := shares(have, set.Nodes(), n, unit)
		if !fits || set.Count() == 1 {
			if fits {
				return m.pack(cpuset.New(have[set.Nodes()[0]]...), n), true
			}
			continue
		}
		if d := imbalance(have, share); !ok || d < least {
			best, least, ok = cpuset.New(), d, true
			for _, k := range slices.Sorted(maps.Keys(share)) {
				best = best.Union(m.pack(cpuset.New(have[k]...), share[k]))
			}
		}
	}
	return best, ok
}

// spread is on which nodes CPUs lie.
func (m Machine) spread(set cpuset.CPUSet) (on Mask) {
	for n := range m.groups(set, node) {
		on |= MaskOf(n)
	}
	return on
}

// shares divides n CPUs evenly among nodes, in whole units; what is left over goes where the most is free.
func shares(have map[int][]int, nodes []int, n, unit int) (map[int]int, bool) {
	if n%unit != 0 {
		return nil, false
	}
	share := map[int]int{}
	for _, k := range nodes {
		share[k] = n / len(nodes) / unit * unit
	}
	left := n - share[nodes[0]]*len(nodes)
	order := slices.SortedStableFunc(slices.Values(nodes), func(a, b int) int { return len(have[b]) - len(have[a]) })
	for i := 0; left > 0; i = (i + 1) % len(order) {
		share[order[i]] += unit
		left -= unit
	}
	for k, s := range share {
		if s > len(have[k]) {
			return nil, false
		}
	}
	return share, true
}

// imbalance tells how unlike the nodes are in what stays free on them: the sum of the squares of what they differ from the mean.
func imbalance(have map[int][]int, share map[int]int) (sum float64) {
	mean := 0.0
	for k, ids := range have {
		mean += float64(len(ids)-share[k]) / float64(len(have))
	}
	for k, ids := range have {
		d := float64(len(ids)-share[k]) - mean
		sum += d * d
	}
	return sum
}
