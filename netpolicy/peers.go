package netpolicy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/kloop-dev/kloop/internal/coldsort"
)

// peers returns the sets that hold the peers of a rule: one of the pods, one of the blocks. A rule without peers means everybody, which is
// the set "". Rules with the same peers share their sets.
func (b *planner) peers(ns string, list []peer) (names []string) {
	if len(list) == 0 {
		return []string{""}
	}
	if selecting := slices.DeleteFunc(slices.Clone(list), peer.isBlock); len(selecting) > 0 {
		names = append(names, b.pods(ns, selecting))
	}
	var ranges []span
	for _, p := range list {
		if p.isBlock() && p.block.Addr().Is6() == b.plan.V6 {
			ranges = append(ranges, p.ranges()...)
		}
	}
	if len(ranges) > 0 {
		names = append(names, b.blocks(ranges))
	}
	return names
}

func (p peer) isBlock() bool { return p.block.IsValid() }

// key names what a peer selects, for a policy in ns.
func (p peer) key(ns string) string {
	switch {
	case p.isBlock():
		return fmt.Sprint(p.block, p.except)
	case p.own:
		return "ns " + ns + " " + p.pods.String()
	}
	return "ns{" + p.spaces.String() + "} " + p.pods.String()
}

func keyOf(ns string, list []peer) string {
	var keys []string
	for _, p := range list {
		keys = append(keys, p.key(ns))
	}
	slices.Sort(keys)
	return strings.Join(keys, "|")
}

// pods is the set of the addresses of all pods of the cluster that some of the peers select.
func (b *planner) pods(ns string, list []peer) string {
	name := "pods-" + hashOf(keyOf(ns, list))
	if _, made := b.plan.Sets[name]; made {
		return name
	}
	s := Set{Addresses, map[string]string{}}
	b.plan.Sets[name] = s
	for _, p := range b.matching(ns, list) {
		for _, a := range p.addrs {
			if a.Is6() == b.plan.V6 {
				s.Elements[bytesOf(a)] = ""
			}
		}
	}
	return name
}

// ends is the set of the peers' addresses, each with the number that its pod gives to a named port. Names are resolved where the
// connection goes: an egress rule's port has a number of its own at every peer.
func (b *planner) ends(ns string, list []peer, pt port) string {
	name := "ends-" + hashOf(keyOf(ns, list)+" "+pt.named+" "+string(pt.protocol))
	if _, made := b.plan.Sets[name]; made {
		return name
	}
	s := Set{Ends, map[string]string{}}
	b.plan.Sets[name] = s
	for _, p := range b.m.pods {
		n, found := number(p.Pod, pt.named, pt.protocol)
		if !found {
			continue
		}
		for _, a := range p.addrs {
			if a.Is6() == b.plan.V6 && b.m.meets(ns, list, a) {
				s.Elements[endBytes(a, n)] = ""
			}
		}
	}
	return name
}

// matching are the pods that some of the peers select.
func (b *planner) matching(ns string, list []peer) (pods []*pod) {
	for _, p := range list {
		if p.own {
			pods = append(pods, b.m.selected(ns, p.pods)...)
			continue
		}
		for _, space := range b.m.namespaces {
			if p.spaces.Matches(space.labels) {
				pods = append(pods, b.m.selected(space.name, p.pods)...)
			}
		}
	}
	return pods
}

// blocks is the set of ranges of addresses.
func (b *planner) blocks(list []span) string {
	s := Set{Ranges, map[string]string{}}
	merged := merge(list)
	for _, r := range merged {
		s.Elements[bytesOf(r.first)] = bytesOf(r.last)
	}
	name := "nets-" + hashOf(fmt.Sprint(merged))
	b.plan.Sets[name] = s
	return name
}

// A span is a range of addresses, both ends in it.
type span struct{ first, last netip.Addr }

// ranges are the addresses of a block that none of its exceptions takes out.
func (p peer) ranges() []span {
	left := []span{spanOf(p.block)}
	for _, e := range p.except {
		x := spanOf(e)
		var next []span
		for _, s := range left {
			if x.last.Less(s.first) || s.last.Less(x.first) {
				next = append(next, s)
				continue
			}
			if s.first.Less(x.first) {
				next = append(next, span{s.first, x.first.Prev()})
			}
			if x.last.Less(s.last) {
				next = append(next, span{x.last.Next(), s.last})
			}
		}
		left = next
	}
	return left
}

func spanOf(p netip.Prefix) span {
	last := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < len(last)*8; bit++ {
		last[bit/8] |= 1 << (7 - bit%8)
	}
	end, _ := netip.AddrFromSlice(last)
	return span{p.Masked().Addr(), end}
}

// merge joins spans that overlap or touch: the kernel's sets want them apart.
func merge(list []span) (out []span) {
	coldsort.Func(list, func(a, b span) int { return a.first.Compare(b.first) })
	for _, s := range list {
		if n := len(out) - 1; n >= 0 && (!out[n].last.Less(s.first) || out[n].last.Next() == s.first) {
			if out[n].last.Less(s.last) {
				out[n].last = s.last
			}
			continue
		}
		out = append(out, s)
	}
	return out
}
