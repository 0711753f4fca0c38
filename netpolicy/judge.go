package netpolicy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// A Connection is judged by policies: the first packet of one, after the proxy has chosen its endpoint.
type Connection struct {
	From, To netip.Addr
	Protocol corev1.Protocol
	Port     uint16 // of the destination
}

// A Verdict says whether a connection passes, and what decided it.
type Verdict struct {
	Allowed bool
	Always  string // why no policy was asked; "" if they were
	Egress  Side   // of the source
	Ingress Side   // of the destination
}

// A Side sums up the policies of one end.
type Side struct {
	Isolated bool
	Policies []string // namespace/name of those that isolate the pod in this direction
	By       string   // the policy that allows
	Rule     int      // its rule, counted from 0
}

// Allowed says whether this side lets the connection through.
func (s Side) Allowed() bool { return !s.Isolated || s.By != "" }

// Judge decides one connection by the words of the API. It is the simulator that the kernel's rules are tested against.
func (m *Model) Judge(c Connection) Verdict {
	from, to := m.byAddr[c.From], m.byAddr[c.To]
	switch {
	case from != nil && from == to:
		return Verdict{Allowed: true, Always: "a pod always reaches itself"}
	case to != nil && slices.Contains(m.nodes[to.Spec.NodeName], c.From):
		return Verdict{Allowed: true, Always: "a node always reaches its own pods"}
	case from != nil && slices.Contains(m.nodes[from.Spec.NodeName], c.To):
		return Verdict{Allowed: true, Always: "a pod always reaches its own node"}
	}
	v := Verdict{Egress: m.side(from, Egress, c, c.To, to), Ingress: m.side(to, Ingress, c, c.From, to)}
	v.Allowed = v.Egress.Allowed() && v.Ingress.Allowed()
	return v
}

// side asks the policies of one end. far is the address of the other end, dst the pod that is connected to, which ports' names are of.
func (m *Model) side(p *pod, d Direction, c Connection, far netip.Addr, dst *pod) (s Side) {
	if p == nil {
		return s
	}
	for _, pol := range m.policies[p.Namespace] {
		rules, isolates := pol.rules[d]
		if !isolates || !pol.subject.Matches(labels.Set(p.Labels)) {
			continue
		}
		s.Isolated = true
		s.Policies = append(s.Policies, pol.Namespace+"/"+pol.Name)
		for i, r := range rules {
			if s.By == "" && m.meets(pol.Namespace, r.peers, far) && covers(r.ports, c, dst) {
				s.By, s.Rule = pol.Namespace+"/"+pol.Name, i
			}
		}
	}
	return s
}

// meets says whether an address belongs to any of the peers of a policy in ns.
func (m *Model) meets(ns string, peers []peer, a netip.Addr) bool {
	if len(peers) == 0 {
		return true
	}
	p := m.byAddr[a]
	for _, peer := range peers {
		switch {
		case peer.block.IsValid():
			if peer.block.Contains(a) && !slices.ContainsFunc(peer.except, func(x netip.Prefix) bool { return x.Contains(a) }) {
				return true
			}
		case p == nil:
		case peer.own && p.Namespace != ns:
		case !peer.own && !peer.spaces.Matches(m.namespaceLabels(p.Namespace)):
		case peer.pods.Matches(labels.Set(p.Labels)):
			return true
		}
	}
	return false
}

func covers(ports []port, c Connection, dst *pod) bool {
	if len(ports) == 0 {
		return true
	}
	for _, p := range ports {
		if p.protocol != c.Protocol {
			continue
		}
		if p.everything {
			return true
		}
		from, to := p.from, p.to
		if p.named != "" {
			n, found := uint16(0), false
			if dst != nil {
				n, found = number(dst.Pod, p.named, p.protocol)
			}
			if !found {
				continue
			}
			from, to = n, n
		}
		if c.Port >= from && c.Port <= to {
			return true
		}
	}
	return false
}

// Explain tells a person what decided, in sentences.
func (v Verdict) Explain() string {
	if v.Always != "" {
		return v.Always
	}
	return v.Egress.explain("leave its source", "egress") + "; " + v.Ingress.explain("enter its destination", "ingress")
}

func (s Side) explain(does, direction string) string {
	switch {
	case !s.Isolated:
		return fmt.Sprintf("it may %s, which no policy isolates for %s", does, direction)
	case s.By != "":
		return fmt.Sprintf("it may %s: NetworkPolicy %s allows it (spec.%s[%d])", does, s.By, direction, s.Rule)
	}
	return fmt.Sprintf("it may not %s: no %s rule of NetworkPolicy %s allows it", does, direction, strings.Join(s.Policies, ", "))
}
