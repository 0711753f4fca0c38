package dns

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"sort"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// serving is a server that follows its world and answers on a port.
func serving(t testing.TB) (*world, string) {
	t.Helper()
	s, w := synced(t, shop()...)
	l, at := listenAnywhere(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- l.serve(ctx, s) }()
	go func() { done <- s.zone.follow(ctx, w, func() {}) }()
	t.Cleanup(func() {
		cancel()
		for range cap(done) {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
	return w, at.String()
}

func dial(t testing.TB, network, at string) net.Conn {
	t.Helper()
	c, err := net.Dial(network, at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func exchange(t testing.TB, c net.Conn, msg []byte) []byte {
	t.Helper()
	if _, ok := c.(*net.TCPConn); ok {
		msg = append([]byte{byte(len(msg) >> 8), byte(len(msg))}, msg...)
	}
	if _, err := c.Write(msg); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 65537)
	n, err := c.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := c.(*net.TCPConn); ok {
		return buf[2:n]
	}
	return buf[:n]
}

// TestTransports asks over UDP, and several questions over one TCP connection.
func TestTransports(t *testing.T) {
	_, at := serving(t)
	for _, network := range []string{"udp", "tcp"} {
		c := dial(t, network, at)
		for range 3 {
			got := told(t, exchange(t, c, asked(t, "web.shop.svc.cluster.local", dnsmessage.TypeA, 0)))
			if got != "Success\nweb.shop.svc.cluster.local A 10.96.1.1" {
				t.Errorf("%s: %s", network, got)
			}
		}
	}
}

// TestPropagation changes an endpoint and asks until the answer shows it. The time it takes is logged.
func TestPropagation(t *testing.T) {
	w, at := serving(t)
	c := dial(t, "udp", at)
	var took []time.Duration
	for i := range 200 {
		addr := fmt.Sprintf("10.91.%d.1", i)
		w.put(slice("plain", "plain-1", "IPv4", ready("", addr)))
		for began := time.Now(); ; {
			if strings.HasSuffix(told(t, exchange(t, c, asked(t, "plain.shop.svc.cluster.local", dnsmessage.TypeA, 0))), addr) {
				took = append(took, time.Since(began))
				break
			}
		}
		old := fmt.Sprintf("1.%d.91.10.in-addr.arpa", i-1)
		if got := told(t, exchange(t, c, asked(t, old, dnsmessage.TypePTR, 0))); i > 0 && got != "ServerFailure" {
			t.Fatalf("the address that went still has a name: %s", got)
		}
	}
	sort.Slice(took, func(i, j int) bool { return took[i] < took[j] })
	t.Logf("a change is answered after %v (median), %v (p99)", took[len(took)/2], took[len(took)*99/100])
}

// TestZoneFollows compares a zone that followed changes with one made from the end state.
func TestZoneFollows(t *testing.T) {
	s, w := synced(t, shop()...)
	feed := w.Feed(kinds.Services, kinds.EndpointSlices, kinds.Namespaces, kinds.Nodes)
	if _, err := feed.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.put(svc("db", nil, "10.96.9.9"))
	w.put(space("later"))
	w.put(slice("db", "db-1", "IPv4", ready("db-7", "10.88.0.77")))
	moved := netip.MustParseAddr("10.88.0.77")
	for s.zone.services[key{"shop", "db"}].headless || !s.zone.spaces["later"] || s.zone.reverse[moved] == nil {
		b, err := feed.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.zone.take(b)
	}
	fresh := newZone(DefaultDomain, nil)
	fresh.take(client.Batch{Read: w.Read(), Reset: true})
	if !reflect.DeepEqual(s.zone.services, fresh.services) || !reflect.DeepEqual(s.zone.reverse, fresh.reverse) ||
		!reflect.DeepEqual(s.zone.shared, fresh.shared) || !reflect.DeepEqual(s.zone.spaces, fresh.spaces) {
		t.Errorf("the zone that followed differs from one made anew:\n%v\n%v", s.zone.reverse, fresh.reverse)
	}
}

func BenchmarkAnswer(b *testing.B) {
	s, _ := synced(b, shop()...)
	for _, name := range []string{"web.shop.svc.cluster.local", "www.example.com.shop.svc.cluster.local", "db.shop.svc.cluster.local"} {
		b.Run(name, func(b *testing.B) {
			msg, d := asked(b, name, dnsmessage.TypeA, 1232), newDesk()
			b.ReportAllocs()
			for b.Loop() {
				began := time.Now()
				out, q, _ := s.handle(d, msg, here)
				s.told.question(&q, here, out, began)
			}
		})
	}
}

// TestNoAllocations: answers from the zone leave nothing behind, and so the process's heap does not grow with the questions.
func TestNoAllocations(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector allocates")
	}
	s, _ := synced(t, shop()...)
	d := newDesk()
	for _, name := range []string{"web.shop.svc.cluster.local", "db.shop.svc.cluster.local", "no.shop.svc.cluster.local",
		"www.example.com.shop.svc.cluster.local", "db-0.db.shop.svc.cluster.local", "_http._tcp.web.shop.svc.cluster.local",
		"10-88-0-1.shop.pod.cluster.local"} {
		typ, most := dnsmessage.TypeA, 0.0
		if strings.HasPrefix(name, "_") {
			typ = dnsmessage.TypeSRV
		}
		msg := asked(t, name, typ, 1232)
		if strings.HasPrefix(name, "10-") || strings.HasPrefix(name, "db-0") {
			most = 2 // the address, from its label or among the endpoints
		}
		if n := testing.AllocsPerRun(100, func() {
			began := time.Now()
			out, q, _ := s.handle(d, msg, here)
			s.told.question(&q, here, out, began)
		}); n > most {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// TestDeskKeepsNothing: an answer at a desk that has answered others is that of a new one.
func TestDeskKeepsNothing(t *testing.T) {
	s, _ := synced(t, shop()...)
	old := newDesk()
	for _, name := range []string{"db.shop.svc.cluster.local", "dual.shop.svc.cluster.local", "a.b", "web.shop.svc.cluster.local",
		"_http._tcp.db.shop.svc.cluster.local", "no.shop.svc.cluster.local", "one.shop.svc.cluster.local"} {
		for _, typ := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA, dnsmessage.TypeSRV} {
			msg := asked(t, name, typ, 1232)
			got, q, _ := s.handle(old, msg, here)
			want, p, _ := s.handle(newDesk(), msg, here)
			if q.name != p.name || len(got) != len(want) || got != nil && told(t, got) != told(t, want) {
				t.Errorf("%s %v: %q %q", name, typ, got, want)
			}
		}
	}
}

// TestManyNames: ten thousand services, the most that upstream promises for a cluster, are all answered, and names that begin with a digit.
func TestManyNames(t *testing.T) {
	var objs []resource.Object
	for i := range 10_000 {
		objs = append(objs, svc(fmt.Sprint(i, "-web"), nil, netip.AddrFrom4([4]byte{10, 100, byte(i >> 8), byte(i)}).String()))
	}
	s, _ := synced(t, append(objs, space("shop"))...)
	d := newDesk()
	for i := range 10_000 {
		name := fmt.Sprint(i, "-web.shop.svc.cluster.local")
		out, _, _ := s.handle(d, asked(t, name, dnsmessage.TypeA, 0), here)
		if got, want := told(t, out), fmt.Sprintf("Success\n%s A 10.100.%d.%d", name, i>>8, i&255); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
}
