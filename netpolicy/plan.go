package netpolicy

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/internal/coldsort"
)

// A Plan says all that the kernel shall hold of one address family on one node. Chains and sets of addresses' ranges are named by
// their content, so they never change: a pod whose rules change is led to another chain. What pods come and go from are the elements
// of sets.
type Plan struct {
	V6     bool
	Sets   map[string]Set
	Chains map[string][]Match

	left bool // some addresses stay isolated as they are: see leave
}

// The sets that every plan has: which chain judges a pod's own connections, which judges those to it, and pods paired with themselves.
const (
	egressMap  = "egress"
	ingressMap = "ingress"
	selfSet    = "self"
)

// A SetKind says what the elements of a set are.
type SetKind int

// The kinds of sets.
const (
	Chains    SetKind = iota // address → name of a chain
	Pairs                    // address . address
	Addresses                // address
	Ends                     // address . port
	Ranges                   // ranges of addresses
)

// A Set is a set or map of the kernel. Of Ranges, a key is the first address and the value the last.
type Set struct {
	Kind     SetKind
	Elements map[string]string // bytes as the kernel has them → name of the chain, or nothing
}

// A Match is one rule of a chain: a connection that matches passes. Behind the last rule of a chain stands a drop.
type Match struct {
	Set      string // that the other end is in; "": everybody
	Protocol byte   // 0: all
	From, To uint16 // ports; both 0: all
}

// planner collects one plan.
type planner struct {
	m    *Model
	plan *Plan
	done map[string]string // chains by what they are made from
}

// NewPlan compiles the policies of one node's pods for an address family. It is pure.
func NewPlan(m *Model, node string, v6 bool) *Plan {
	b := &planner{m: m, done: map[string]string{}, plan: &Plan{V6: v6, Chains: map[string][]Match{}, Sets: map[string]Set{
		egressMap: {Chains, map[string]string{}}, ingressMap: {Chains, map[string]string{}}, selfSet: {Pairs, map[string]string{}}}}}
	isolated := map[Direction]map[*pod][]*policy{Ingress: {}, Egress: {}}
	for _, list := range m.policies {
		for _, pol := range list {
			for _, p := range m.selected(pol.Namespace, pol.subject) {
				if p.Spec.NodeName != node {
					continue
				}
				for d := range pol.rules {
					isolated[d][p] = append(isolated[d][p], pol)
				}
			}
		}
	}
	for d, pods := range isolated {
		for p, policies := range pods {
			b.isolate(d, p, policies)
		}
	}
	return b.plan
}

// isolate leads the connections of a pod in one direction to the chain of its policies.
func (b *planner) isolate(d Direction, p *pod, policies []*policy) {
	into := b.plan.Sets[egressMap]
	if d == Ingress {
		into = b.plan.Sets[ingressMap]
	}
	for _, a := range p.addrs {
		if a.Is6() == b.plan.V6 {
			into.Elements[bytesOf(a)] = b.chain(d, p, policies)
			b.plan.Sets[selfSet].Elements[bytesOf(a)+bytesOf(a)] = ""
		}
	}
}

// chain returns the name of the chain for these policies: one for all pods that have the same ones. Only named ports of an ingress rule
// depend on the pod itself.
func (b *planner) chain(d Direction, p *pod, policies []*policy) string {
	slices.SortFunc(policies, func(x, y *policy) int { return strings.Compare(x.Name, y.Name) })
	key := string(d) + " " + p.Namespace
	for _, pol := range policies {
		key += " " + pol.Name
		for _, r := range pol.rules[d] {
			for _, pt := range r.ports {
				if n, found := number(p.Pod, pt.named, pt.protocol); d == Ingress && pt.named != "" {
					key += fmt.Sprint(" ", n, found)
				}
			}
		}
	}
	if name, made := b.done[key]; made {
		return name
	}
	var list []Match
	for _, pol := range policies {
		for _, r := range pol.rules[d] {
			list = append(list, b.rule(d, pol.Namespace, r, p)...)
		}
	}
	coldsort.Func(list, func(x, y Match) int { return strings.Compare(x.String(), y.String()) })
	list = slices.Compact(list)
	name := "in-" + hashOf(fmt.Sprint(list))
	if d == Egress {
		name = "out-" + hashOf(fmt.Sprint(list))
	}
	b.plan.Chains[name] = list
	b.done[key] = name
	return name
}

// rule compiles one rule to matches: every kind of peer with every kind of port.
func (b *planner) rule(d Direction, ns string, r rule, p *pod) (list []Match) {
	sets := b.peers(ns, r.peers)
	add := func(m Match) {
		for _, s := range sets {
			m.Set = s
			list = append(list, m)
		}
	}
	if len(r.ports) == 0 {
		add(Match{})
	}
	for _, pt := range r.ports {
		m := Match{Protocol: protocolNumber(pt.protocol), From: pt.from, To: pt.to}
		switch {
		case pt.named == "":
			add(m)
		case d == Ingress:
			if n, found := number(p.Pod, pt.named, pt.protocol); found {
				m.From, m.To = n, n
				add(m)
			}
		default:
			m.Set = b.ends(ns, r.peers, pt)
			list = append(list, m)
		}
	}
	return list
}

// String shows a rule's match in tests and logs.
func (m Match) String() string {
	return fmt.Sprintf("%s %d %d-%d", m.Set, m.Protocol, m.From, m.To)
}

// bytesOf is an address as the kernel has it.
func bytesOf(a netip.Addr) string { return string(a.AsSlice()) }

// hashOf names content. Users write what goes in, so nobody must be able to make two contents of one name.
func hashOf(s string) string {
	h := sha256.Sum256([]byte(s))
	return fmt.Sprintf("%x", h[:16])
}

// endBytes is an address and a port as the parts of a concatenated key: each part fills whole registers of four bytes.
func endBytes(a netip.Addr, port uint16) string {
	return bytesOf(a) + string(binary.BigEndian.AppendUint16(nil, port)) + "\x00\x00"
}

func protocolNumber(p corev1.Protocol) byte {
	switch p {
	case corev1.ProtocolUDP:
		return 17
	case corev1.ProtocolSCTP:
		return 132
	}
	return 6
}
