package proxy

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"pgregory.net/rapid"

	"github.com/kloop-dev/kloop/ipvs"
	"github.com/kloop-dev/kloop/nft"
)

// chance makes the choices of a random world.
type chance interface{ IntN(n int) int }

// drawn draws the choices of a property test.
type drawn struct{ *rapid.T }

func (d drawn) IntN(n int) int { return rapid.IntRange(0, n-1).Draw(d.T, "n") }

func oneOf[T any](c chance, list ...T) T { return list[c.IntN(len(list))] }

// stir changes one service of a small world, in which addresses are scarce so that services quarrel about them.
func (w *world) stir(c chance) key {
	name := fmt.Sprint("s", c.IntN(5))
	n := key{Namespace: "d", Name: name}
	if c.IntN(5) == 0 {
		delete(w.services, n)
		return n
	}
	w.service(name, fmt.Sprint("10.96.0.", 10+c.IntN(4)), func(s *corev1.Service) {
		s.Spec.Type = corev1.ServiceTypeLoadBalancer
		s.Spec.ClusterIPs = oneOf(c, s.Spec.ClusterIPs, []string{s.Spec.ClusterIP, fmt.Sprint("fd00:96::", c.IntN(3))})
		s.Spec.ExternalIPs = oneOf(c, nil, []string{"192.0.2.7", "10.96.0.10"}, []string{"192.0.2.8"})
		s.Spec.ExternalTrafficPolicy = oneOf(c, corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)
		s.Spec.LoadBalancerSourceRanges = oneOf(c, nil, nil, []string{"10.0.0.0/8"}, []string{"10.0.0.0/8", "fd00::/8", "0.0.0.0/0"})
		s.Status.LoadBalancer.Ingress = oneOf(c, nil, []corev1.LoadBalancerIngress{{IP: "198.51.100.1"}, {Hostname: "lb"}})
		s.Spec.Ports[0].NodePort = int32(30000 + c.IntN(3))
		s.Spec.Ports[0].Protocol = oneOf(c, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)
		local := corev1.ServiceInternalTrafficPolicyLocal
		s.Spec.InternalTrafficPolicy = oneOf(c, nil, &local)
		oneOf(c, func(*corev1.Service) {}, sticky(int32(1+c.IntN(2)*100)))(s)
	})
	var ends []discoveryv1.Endpoint
	for range c.IntN(5) {
		ip := fmt.Sprintf(oneOf(c, "10.1.0.%d", "fd00:1::%d"), 1+c.IntN(6))
		ends = append(ends, at(ip, onNodeNamed(oneOf(c, "n1", "n2")), oneOf(c, func(*discoveryv1.Endpoint) {}, terminating, unready)))
	}
	w.ends(name, ends...)
	return n
}

func smallTown() here {
	return here{node: "n1",
		pods: prefixes([]string{"10.1.0.0/24", "fd00:1::/64"}), services: prefixes([]string{"10.96.0.0/16", "fd00:96::/112"}),
		nodePorts: addrs("192.0.2.1", "fd00:2::1"), own: addrs("192.0.2.1", "fd00:2::1")}
}

// TestChangesAddUp holds the book that follows changes against one that is written at once, and the differences that it tells
// against the two states that they lie between.
func TestChangesAddUp(t *testing.T) {
	t.Attr("retry", "never")
	rapid.Check(t, func(t *rapid.T) {
		town := smallTown()
		town.ipvs = rapid.Bool().Draw(t, "ipvs")
		w, b := newWorld(), newBook(town)
		servers := map[ipvs.Key]server{}
		kernel := [2][setCount]map[string]string{b.all(false), b.all(true)}
		for range rapid.IntRange(1, 12).Draw(t, "changes") {
			pending := change{}
			for range rapid.IntRange(1, 3).Draw(t, "together") {
				pending.merge(b.update(w, w.stir(drawn{t})))
			}
			for e, d := range pending {
				set := kernel[family6(e.v6)][e.set]
				old, there := set[e.key]
				if there != (d[0] != nil) || there && old != *d[0] {
					t.Fatalf("the change says that %+v was %v; it was %q, %v", e, d[0], old, there)
				}
				if delete(set, e.key); d[1] != nil {
					set[e.key] = *d[1]
				}
			}
			fresh := newBook(b.here)
			fresh.fill(w)
			for i, v6 := range []bool{false, true} {
				kernel[i][ways] = numbers(b.ways[i])
				if want := fresh.all(v6); !reflect.DeepEqual(kernel[i], want) {
					t.Fatalf("IPv6 %v: the changes lead to\n%q, want\n%q", v6, kernel[i], want)
				}
			}
			for k := range b.moved {
				if delete(servers, k); b.servers[k].ends != nil {
					servers[k] = b.servers[k]
				}
			}
			clear(b.moved)
			if !reflect.DeepEqual(servers, fresh.servers) || !reflect.DeepEqual(b.servers, fresh.servers) {
				t.Fatalf("virtual servers %v, by their changes %v, want %v", b.servers, servers, fresh.servers)
			}
			if !maps.Equal(b.uses, fresh.uses) || !reflect.DeepEqual(b.ways, fresh.ways) || !maps.Equal(b.checked, fresh.checked) {
				t.Fatalf("uses %v, want %v; ways %v, want %v", b.uses, fresh.uses, b.ways, fresh.ways)
			}
		}
	})
}

// TestKernelHoldsThePlan changes a world by chance, has every change programmed, lists the kernel and compares. Now and then somebody
// spoils our tables, and the next pass mends them.
func TestKernelHoldsThePlan(t *testing.T) {
	t.Attr("retry", "never")
	ownNetwork(t, "192.0.2.1")
	for seed := range uint64(3) {
		c := rand.New(rand.NewPCG(seed, 1))
		w := newWorld()
		l := newProxy(t, w, Config{Node: "n1", Address: netip.MustParseAddr("192.0.2.1"),
			Services: prefixes([]string{"10.96.0.0/16", "fd00:96::/112"})})
		for range 60 {
			spoilt := c.IntN(4) == 0
			if spoilt {
				spoil(t, l, c)
			}
			l.sync(t, w, w.stir(c))
			if spoilt && !l.kernels[0].exists {
				t.Fatal("a spoilt table was not looked at")
			}
			l.holds(t)
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
}

// spoil does to our tables what other programs and people do.
func spoil(t *testing.T, l *loop, c chance) {
	t.Helper()
	v6 := c.IntN(2) == 1
	k := newLayout(v6)
	b := nft.NewBatch(k.table())
	switch c.IntN(6) {
	case 0:
		b.AddTable()
		b.DeleteTable()
	case 1:
		b.FlushChain("services")
	case 2:
		b.AddChain(nft.Chain{Name: "foreign"})
		b.AddRule("refuse", nft.NewRule(k.family(), "foreign", to(-4, "foreign")...)) // goto
	case 3:
		which := oneOf(c, services, endpoints, members, hairpin)
		var list []nft.Element
		have, err := l.conn.Elements(k.table(), set(which, v6).Name)
		must(t, err)
		for key := range have {
			list = append(list, nft.Element{Key: key})
		}
		b.DeleteElements(set(which, v6), list)
	case 4: // a table of other make, as an older version left it
		b.AddTable()
		b.DeleteTable()
		b.AddTable()
		b.AddSet(nft.Set{Name: "services", KeyLen: 4})
		b.AddChain(nft.Chain{Name: "old", Hook: &nft.Hook{Type: "filter", Num: 1, Priority: 7}})
	case 5:
		b.AddElements(set(endpoints, v6), []nft.Element{{Key: bits(7) + index(3), Data: endpointKey(netip.MustParseAddrPort(
			oneOf(c, map[bool]string{false: "10.9.9.9:1", true: "[fd00::9]:1"}[v6])))}})
	}
	must(t, l.conn.Commit(b))
}
