package netpolicy

import (
	"maps"
	"net/netip"
	"slices"
)

// Observed holds the kernel's chains of one family. Chains are known by name and number of rules: their names say their content.
type Observed struct {
	Hooked bool // the chain that packets pass is there and whole
	Sets   map[string]Set
	Chains map[string]int
}

// A Change is the difference between a plan and the kernel. Everything but what is no longer used goes in one transaction; a chain can
// only go once nothing leads to it any more.
type Change struct {
	Whole bool // there is nothing to build on: the table is made anew, which replaces the old one in the same instant

	NewSets   []string
	NewChains []string
	Add, Del  map[string]map[string]string // elements by set
	OldChains []string
	OldSets   []string
}

// Empty says whether the kernel has all it should and nothing else.
func (c Change) Empty() bool {
	return !c.Whole && len(c.NewSets)+len(c.NewChains)+len(c.Add)+len(c.Del)+len(c.OldChains)+len(c.OldSets) == 0
}

// leave has the plan leave isolated what a process before this one isolated and no pod is known to have yet, and all chains and sets with
// it: the status of a pod that had just started does not show its address. What is known by now is forgotten in former, which holds what
// the kernel has of it.
func (p *Plan) leave(former map[string]bool, have Observed, m *Model) {
	if broken(p, have) {
		return
	}
	for k := range former {
		if a, ok := netip.AddrFromSlice([]byte(k)); !ok || m.byAddr[a] != nil {
			delete(former, k)
		}
	}
	for _, name := range []string{egressMap, ingressMap} {
		for k, chain := range have.Sets[name].Elements {
			if former[k] {
				p.Sets[name].Elements[k] = chain
				p.Sets[selfSet].Elements[k+k] = ""
				p.left = true
			}
		}
	}
}

// isolated are the addresses that the kernel isolates.
func (o Observed) isolated() map[string]bool {
	all := map[string]bool{}
	for _, name := range []string{egressMap, ingressMap} {
		for k := range o.Sets[name].Elements {
			all[k] = true
		}
	}
	return all
}

// Difference compares what should be with what is. It is pure.
func Difference(want *Plan, have Observed) Change {
	if broken(want, have) {
		have = Observed{}
	}
	c := Change{Whole: !have.Hooked, Add: map[string]map[string]string{}, Del: map[string]map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(want.Sets)) {
		is, there := have.Sets[name]
		if !there {
			c.NewSets = append(c.NewSets, name)
		}
		c.elements(name, want.Sets[name], is)
	}
	for _, name := range slices.Sorted(maps.Keys(want.Chains)) {
		if _, there := have.Chains[name]; !there {
			c.NewChains = append(c.NewChains, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have.Chains)) {
		if _, wanted := want.Chains[name]; !wanted && !want.left {
			c.OldChains = append(c.OldChains, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have.Sets)) {
		if _, wanted := want.Sets[name]; !wanted && !want.left {
			c.OldSets = append(c.OldSets, name)
		}
	}
	return c
}

// broken says whether somebody changed what never changes: then nothing is trusted.
func broken(want *Plan, have Observed) bool {
	for name, list := range want.Chains {
		if rules, there := have.Chains[name]; there && rules != len(list)+1 {
			return true
		}
	}
	return !have.Hooked
}

func (c Change) elements(name string, want, have Set) {
	for k, v := range want.Elements {
		if is, there := have.Elements[k]; !there || is != v {
			put(c.Add, name, k, v)
			if there {
				put(c.Del, name, k, is)
			}
		}
	}
	if want.Kind == Ranges {
		return // named by content
	}
	for k, v := range have.Elements {
		if _, wanted := want.Elements[k]; !wanted {
			put(c.Del, name, k, v)
		}
	}
}

func put(to map[string]map[string]string, set, k, v string) {
	if to[set] == nil {
		to[set] = map[string]string{}
	}
	to[set][k] = v
}
