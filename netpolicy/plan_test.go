package netpolicy

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/kloop-dev/kloop/internal/testpolicy"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// passes runs a connection through a plan as the kernel does.
func (p *Plan) passes(c Connection) bool {
	if _, self := p.Sets[selfSet].Elements[bytesOf(c.From)+bytesOf(c.To)]; self {
		return true
	}
	for _, way := range []struct {
		set       string
		own, peer netip.Addr
	}{{egressMap, c.From, c.To}, {ingressMap, c.To, c.From}} {
		if chain, isolated := p.Sets[way.set].Elements[bytesOf(way.own)]; isolated && !p.matches(chain, c, way.peer) {
			return false
		}
	}
	return true
}

func (p *Plan) matches(chain string, c Connection, peer netip.Addr) bool {
	for _, m := range p.Chains[chain] {
		if m.Protocol != 0 && (m.Protocol != protocolNumber(c.Protocol) || m.To != 0 && (c.Port < m.From || c.Port > m.To)) {
			continue
		}
		if m.Set == "" || p.Sets[m.Set].holds(peer, c.Port) {
			return true
		}
	}
	return false
}

func (s Set) holds(a netip.Addr, port uint16) bool {
	switch s.Kind {
	case Ends:
		_, in := s.Elements[endBytes(a, port)]
		return in
	case Ranges:
		for first, last := range s.Elements {
			if first <= bytesOf(a) && bytesOf(a) <= last {
				return true
			}
		}
		return false
	}
	_, in := s.Elements[bytesOf(a)]
	return in
}

// connections are all that can differ: between pods and an address outside, on ports around those of the policies.
func connections(m *Model, v6 bool) (list []Connection) {
	ends := []netip.Addr{addr("192.0.2.1")}
	if v6 {
		ends[0] = addr("2001:db8::1")
	}
	for _, p := range m.pods {
		for _, a := range p.addrs {
			if a.Is6() == v6 {
				ends = append(ends, a)
			}
		}
	}
	for _, from := range ends {
		for _, to := range ends {
			for _, protocol := range testpolicy.Protocols {
				for port := uint16(79); port <= 83; port++ {
					list = append(list, Connection{from, to, protocol, port})
				}
			}
		}
	}
	return list
}

// TestPlanIsJudge: the rules of both ends' nodes let through the connections that the simulator allows, for random policies.
func TestPlanIsJudge(t *testing.T) {
	checked, denied := 0, 0
	for seed := range uint64(100) {
		s := testpolicy.Random{Rand: rand.New(rand.NewPCG(seed, 1))}.Cluster(3)
		m := NewModel(s, nil, nil)
		for _, v6 := range []bool{false, true} {
			var plans []*Plan
			for n := range 3 {
				plans = append(plans, NewPlan(m, fmt.Sprint("n", n), v6))
			}
			for _, c := range connections(m, v6) {
				got := plans[0].passes(c) && plans[1].passes(c) && plans[2].passes(c)
				v := m.Judge(c)
				if got != v.Allowed {
					t.Fatalf("seed %d: %v: the rules pass it: %v; the simulator: %s", seed, c, got, v.Explain())
				}
				checked++
				if !got {
					denied++
				}
			}
		}
	}
	if denied < checked/20 || denied > checked*19/20 {
		t.Errorf("%d of %d connections are denied: the policies hardly differ", denied, checked)
	}
}

// TestDifference: applied to what is observed, the difference makes what is wanted, and nothing is left to do.
func TestDifference(t *testing.T) {
	for seed := range uint64(100) {
		before := NewPlan(NewModel(testpolicy.Random{Rand: rand.New(rand.NewPCG(seed, 2))}.Cluster(1), nil, nil), "n0", false)
		after := NewPlan(NewModel(testpolicy.Random{Rand: rand.New(rand.NewPCG(seed, 3))}.Cluster(1), nil, nil), "n0", false)
		if c := Difference(after, after.observed(Observed{})); !c.Empty() {
			t.Fatalf("seed %d: a plan differs from itself: %+v", seed, c)
		}
		have := before.observed(Observed{})
		apply(&have, after, Difference(after, have))
		if c := Difference(after, have); !c.Empty() {
			t.Fatalf("seed %d: after the change there is still %+v", seed, c)
		}
	}
}

// apply does to an observation what program does to the kernel.
func apply(o *Observed, p *Plan, c Change) {
	next := Observed{Hooked: true, Sets: map[string]Set{}, Chains: map[string]int{}}
	for name, s := range o.Sets {
		if _, wanted := p.Sets[name]; wanted {
			next.Sets[name] = Set{s.Kind, map[string]string{}}
			for k, v := range s.Elements {
				next.Sets[name].Elements[k] = v
			}
		}
	}
	for _, name := range c.NewSets {
		next.Sets[name] = Set{p.Sets[name].Kind, map[string]string{}}
	}
	for set, list := range c.Del {
		for k := range list {
			delete(next.Sets[set].Elements, k)
		}
	}
	for set, list := range c.Add {
		for k, v := range list {
			next.Sets[set].Elements[k] = v
		}
	}
	for name := range p.Chains {
		next.Chains[name] = len(p.Chains[name]) + 1
	}
	*o = next
}

// TestBrokenTable: a chain that lost a rule, or no chain that packets pass, is no ground to build on.
func TestBrokenTable(t *testing.T) {
	p := NewPlan(NewModel(testpolicy.Random{Rand: rand.New(rand.NewPCG(5, 2))}.Cluster(1), nil, nil), "n0", false)
	have := p.observed(Observed{})
	for name := range have.Chains {
		have.Chains[name]--
		break
	}
	if c := Difference(p, have); len(p.Chains) == 0 || !c.Whole || len(c.NewSets) != len(p.Sets) {
		t.Errorf("a chain with a rule less: %+v", c)
	}
}

// TestCompiledOnce: a model that takes over what an earlier one compiled is that of the objects as they are now, and forgets the others.
func TestCompiledOnce(t *testing.T) {
	was := NewModel(testpolicy.Random{Rand: rand.New(rand.NewPCG(7, 2))}.Cluster(1), nil, nil)
	s := testpolicy.Random{Rand: rand.New(rand.NewPCG(7, 2))}.Cluster(1)
	for i := range 20 { // objects of another name, of the same name but changed, and those that stay
		s.Policy("x", fmt.Sprint("p", i), networkingv1.NetworkPolicySpec{})
	}
	first := NewModel(s, nil, was.compiled)
	changed := resource.Clone(s[kinds.NetworkPolicies][0].(*networkingv1.NetworkPolicy))
	changed.Spec = networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}}
	s[kinds.NetworkPolicies] = append([]resource.Object{changed}, s[kinds.NetworkPolicies][1:10]...)
	got, want := NewModel(s, nil, first.compiled), NewModel(s, nil, nil)
	for _, v6 := range []bool{false, true} {
		if c := Difference(NewPlan(got, "n0", v6), NewPlan(want, "n0", v6).observed(Observed{})); !c.Empty() {
			t.Errorf("IPv6 %v: %s", v6, show(c))
		}
	}
	if len(got.compiled) != 10 {
		t.Errorf("%d policies are remembered, there are 10", len(got.compiled))
	}
}
