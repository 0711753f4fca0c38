package proxy

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/internal/eventually"
	"github.com/kloop-dev/kloop/nft"
)

// sticky makes a service keep its clients, for some seconds.
func sticky(seconds int32) func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
	}
}

// TestSessionAffinity keeps a client at its endpoint whatever other endpoints come and go, gives it another when that is gone, and
// forgets it in time.
func TestSessionAffinity(t *testing.T) {
	ownNetwork(t, "10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4", "fd00::1", "fd00::2", "10.1.0.100")
	answer(t, "10.1.0.1:8080", "10.1.0.2:8080", "10.1.0.3:8080", "10.1.0.4:8080", "[fd00::1]:8080", "[fd00::2]:8080")
	w := newWorld()
	dual := func(s *corev1.Service) {
		s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, "fd00:96::12")
		s.Spec.Ports[0].NodePort = 30080
	}
	name := w.service("web", "10.96.0.12", sticky(10800), dual)
	w.ends("web", at("10.1.0.1"), at("10.1.0.2"), at("10.1.0.3"), at("fd00::1"), at("fd00::2"))
	l := newProxy(t, w, Config{Services: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:96::/112")}})
	l.sync(t, w)
	l.holds(t)
	meet := func(at string) string {
		t.Helper()
		who, _, err := ask(at)
		must(t, err)
		return who
	}
	six := meet("[fd00:96::12]:80")
	first := meet("10.96.0.12:80")
	for range 20 {
		if who := meet("10.96.0.12:80"); who != first {
			t.Fatalf("first %s, then %s", first, who)
		}
		if who := meet("[fd00:96::12]:80"); who != six {
			t.Fatalf("IPv6: first %s, then %s", six, who)
		}
	}
	// Others come and go; the client stays.
	keep := netip.MustParseAddrPort(first).Addr().String()
	w.ends("web", at(keep), at("10.1.0.4"))
	l.sync(t, w, name)
	l.holds(t)
	for range 10 {
		if who := meet("10.96.0.12:80"); who != first {
			t.Fatalf("first %s, then, with other endpoints beside it, %s", first, who)
		}
	}
	// Its own goes, and comes back: the client stays with the new one.
	w.ends("web", at("10.1.0.4"))
	l.sync(t, w, name)
	if who := meet("10.96.0.12:80"); who != "10.1.0.4:8080" {
		t.Fatalf("the endpoint is gone: %s", who)
	}
	w.ends("web", at(keep), at("10.1.0.4"))
	l.sync(t, w, name)
	for range 20 {
		if who := meet("10.96.0.12:80"); who != "10.1.0.4:8080" {
			t.Fatalf("the new endpoint was %s, then %s", "10.1.0.4:8080", who)
		}
	}
	// A second of patience. Then nobody remembers the client.
	w.service("web", "10.96.0.12", sticky(1), dual)
	l.sync(t, w, name)
	for met := map[string]bool{}; len(met) < 2; {
		met[meet("10.96.0.12:80")] = true
		eventually.True(t, "the kernel forgets the client", func() bool { return remembered(t, l) == 0 })
	}
}

// remembered counts the clients that the kernel knows of in IPv4, of those that it may forget soon.
func remembered(t *testing.T, l *loop) int {
	t.Helper()
	list, err := l.conn.Elements(l.kernels[0].layout.table(), "affinity")
	must(t, err)
	return len(list)
}

// TestMarkIsGone drops what leaves with our mark: a tunnel would take the packet for one that is still to be masqueraded.
func TestMarkIsGone(t *testing.T) {
	ownNetwork(t, "10.1.0.1", "10.1.0.100")
	answer(t, "10.1.0.1:8080")
	w := newWorld()
	w.service("web", "10.96.0.10", func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 30080 })
	w.ends("web", at("10.1.0.1"))
	l := newProxy(t, w, Config{})
	l.sync(t, w)
	b := nft.NewBatch(nft.Table{Family: nft.IPv4, Name: "probe"})
	b.AddTable()
	const later = 200
	b.AddChain(nft.Chain{Name: "last", Hook: &nft.Hook{Type: "filter", Num: unix.NF_INET_POST_ROUTING, Priority: later}})
	b.AddRule("last", nft.NewRule(nft.IPv4, "marked", &expr.Meta{Key: expr.MetaKeyMARK, Register: 1},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)}, &expr.Verdict{Kind: expr.VerdictDrop}))
	must(t, l.conn.Commit(b))
	if _, _, err := askWithin(10*time.Second, "10.1.0.100:30080"); err != nil {
		t.Errorf("a node port: %v", err)
	}
}
