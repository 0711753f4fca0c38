package podnetwork

import (
	"cmp"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/resource"
)

// A machine is a Node as its network sees it.
type machine struct {
	name   string
	ranges []netip.Prefix // of its pods, at most one of a family that counts
	addrs  []netip.Addr   // internal addresses

	key, endpoint string // annotations
}

// A census holds all that the pod network knows of the Nodes.
type census struct {
	own     machine
	peers   []machine      // with ranges, by name
	pods    []netip.Prefix // the ranges of all, in order, none inside another
	trouble string         // of the own node
	notes   []string       // troubles of others
}

func (c census) equal(o census) bool { return reflect.DeepEqual(c, o) }

// newCensus is pure. Of two nodes whose ranges overlap the older one has it, as its pods were first.
func newCensus(read resource.Reader, own string) (c census) {
	c.own.name = own
	nodes := byAge(read)
	addrs := map[netip.Addr]string{}
	for _, n := range nodes {
		for _, a := range internal(n) {
			addrs[a] = n.Name
		}
	}
	t := territory{taken: map[netip.Prefix]string{}, above: map[netip.Prefix]string{}}
	over := inside(addrs, nodes)
	for _, n := range nodes {
		m := machine{name: n.Name, addrs: internal(n), key: n.Annotations[wellknown.WireGuardKey]}
		m.endpoint = n.Annotations[wellknown.WireGuardEndpoint]
		for _, p := range podRanges(n) {
			problem := cmp.Or(over[p], t.conflict(p, n.Name))
			switch {
			case problem == "":
				t.take(p, n.Name)
				m.ranges = append(m.ranges, p)
			case n.Name == own:
				c.trouble = problem
				m.ranges = append(m.ranges, p) // what it has serves its own pods
			default:
				c.notes = append(c.notes, problem)
			}
		}
		switch {
		case n.Name == own:
			c.own = m
		case len(m.ranges) > 0:
			c.peers = append(c.peers, m)
		}
	}
	coldsort.Func(c.peers, func(a, b machine) int { return strings.Compare(a.name, b.name) })
	c.pods = t.all(c.own.ranges)
	if len(c.own.ranges) == 0 {
		c.trouble = fmt.Sprintf(
			"node %s has no pod range: its spec.podCIDRs is empty. The loop node-ipam fills it, of the range that the server's "+
				"setting network.podCIDR names, as long as there are addresses left", own)
	}
	return c
}

// byAge lists the Nodes, the oldest first.
func byAge(read resource.Reader) (nodes []*corev1.Node) {
	for obj := range read.Each(kinds.Nodes, "") {
		nodes = append(nodes, resource.As[*corev1.Node](obj))
	}
	slices.SortFunc(nodes, func(a, b *corev1.Node) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return nodes
}

// inside are the ranges that hold an address of a node: a route to them would cut that node off.
func inside(addrs map[netip.Addr]string, nodes []*corev1.Node) map[netip.Prefix]string {
	all := map[netip.Prefix]string{}
	for _, n := range nodes {
		for _, p := range podRanges(n) {
			all[p] = n.Name
		}
	}
	bad := map[netip.Prefix]string{}
	for a, name := range addrs {
		for bits := a.BitLen(); bits >= 0; bits-- {
			p, err := a.Prefix(bits)
			if owner, ok := all[p]; ok && err == nil {
				bad[p] = fmt.Sprintf("the pod range %s of node %s holds the address %s of node %s: give the cluster other pod addresses, by the "+
					"setting network.podCIDR", p, owner, a, name)
			}
		}
	}
	return bad
}

// podRanges are the ranges of the node's pods. Validation lets none in that can't be parsed.
func podRanges(n *corev1.Node) (list []netip.Prefix) {
	for _, text := range n.Spec.PodCIDRs {
		if p, err := netip.ParsePrefix(text); err == nil {
			list = append(list, p.Masked())
		}
	}
	return list
}

func internal(n *corev1.Node) (list []netip.Addr) {
	for _, a := range n.Status.Addresses {
		if addr, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
			list = append(list, addr.Unmap())
		}
	}
	return list
}

// A territory knows which ranges are taken.
type territory struct {
	taken map[netip.Prefix]string // range → node
	above map[netip.Prefix]string // every range around one → one of the nodes in it
}

// conflict says why a node can't have a range, since an older one has part of it; "": it can.
func (t *territory) conflict(p netip.Prefix, node string) string {
	other, taken := t.overlaps(p)
	if !taken {
		return ""
	}
	return fmt.Sprintf("the pod range %s of node %s overlaps that of node %s, which is older: delete the Node %s and restart its agent, "+
		"so that it gets another", p, node, other, node)
}

// overlaps looks at as many prefixes as an address has bits, however many ranges there are.
func (t territory) overlaps(p netip.Prefix) (node string, taken bool) {
	if node, taken = t.above[p]; taken {
		return node, true
	}
	for bits := p.Bits(); bits >= 0; bits-- {
		around, err := p.Addr().Prefix(bits)
		if node, taken = t.taken[around]; taken && err == nil {
			return node, true
		}
	}
	return "", false
}

func (t territory) take(p netip.Prefix, node string) {
	t.taken[p] = node
	for bits := p.Bits() - 1; bits >= 0; bits-- {
		if around, err := p.Addr().Prefix(bits); err == nil {
			t.above[around] = node
		}
	}
}

// all are the ranges that are taken and those of the own node, in order, none inside another.
func (t territory) all(own []netip.Prefix) (list []netip.Prefix) {
	all := slices.Clone(own)
	for p := range t.taken {
		all = append(all, p)
	}
	coldsort.Func(all, netip.Prefix.Compare) // wide ranges stand before narrow ones that begin with the same address
	for _, p := range all {
		if n := len(list); n == 0 || !list[n-1].Overlaps(p) {
			list = append(list, p)
		}
	}
	return list
}
