package proxy

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/kloop-dev/kloop/nft"
)

func TestKernelFollows(t *testing.T) {
	ownNetwork(t, "10.1.0.1", "10.1.0.2", "10.1.0.100")
	answer(t, "10.1.0.1:8080", "10.1.0.2:8080")
	w := newWorld()
	web := w.service("web", "10.96.0.10", func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 30080 })
	w.service("empty", "10.96.0.11")
	w.ends("web", at("10.1.0.1"), at("10.1.0.2"))
	l := newProxy(t, w, Config{})
	l.sync(t, w)
	l.holds(t)
	met := map[string]int{}
	for range 40 {
		who, _, err := ask("10.96.0.10:80")
		if err != nil {
			t.Fatal(err)
		}
		met[who]++
	}
	if len(met) != 2 {
		t.Errorf("40 connections met %v; want both endpoints", met)
	}
	if who, _, err := ask("10.1.0.100:30080"); err != nil || met[who] == 0 {
		t.Errorf("node port: %q, %v", who, err)
	}
	for what, addr := range map[string]string{"a service without endpoints": "10.96.0.11:80", "a port that the service lacks": "10.96.0.10:81",
		"an address that no service has": "10.96.7.7:80", "a node port on the loopback": "127.0.0.1:30080"} {
		if _, _, err := ask(addr); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: %v, want refused", what, err)
		}
	}
	w.ends("web", at("10.1.0.2"))
	l.sync(t, w, web)
	l.holds(t)
	for range 10 {
		if who, _, err := ask("10.96.0.10:80"); err != nil || who != "10.1.0.2:8080" {
			t.Fatalf("after the endpoint was taken out: %q, %v", who, err)
		}
	}
	delete(w.services, web)
	l.sync(t, w, web)
	l.holds(t)
	if _, _, err := ask("10.96.0.10:80"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after the service was deleted: %v, want refused", err)
	}
}

// many fills a world with services of three endpoints each.
func (w *world) many(from, to int) (names []key) {
	for i := from; i < to; i++ {
		name := fmt.Sprintf("s-%d", i)
		names = append(names, w.service(name, netip.AddrFrom4([4]byte{10, 100 + byte(i>>16), byte(i >> 8), byte(i)}).String()))
		end := func(n byte) discoveryv1.Endpoint {
			return at(netip.AddrFrom4([4]byte{10, n, byte(i >> 8), byte(i)}).String())
		}
		w.ends(name, end(1), end(2), end(3))
	}
	return names
}

// TestManyServices programs more services than fit the kernel's default buffers of a netlink socket.
func TestManyServices(t *testing.T) {
	ownNetwork(t)
	for _, n := range []int{6, 40, 200, 1000, 5000} {
		w := newWorld()
		w.many(0, n)
		l := newProxy(t, w, Config{})
		l.sync(t, w)
		for _, name := range w.many(n, n+10) {
			l.sync(t, w, name)
		}
		l.holds(t)
	}
}

// BenchmarkProgram measures what services of three endpoints each cost: all of them on an empty kernel (cold, with the processor time of
// this process and of the kernel on its behalf), finding the kernel as it should be (observe), and one more.
func BenchmarkProgram(b *testing.B) {
	for _, n := range []int{1000, 10_000, 30_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			ownNetwork(b)
			w := newWorld()
			w.many(0, n)
			l := newProxy(b, w, Config{})
			began, cpu := time.Now(), processor(b)
			l.sync(b, w)
			cold, coldCPU := time.Since(began), processor(b)-cpu
			began = time.Now()
			l.sync(b, w)
			observe := time.Since(began)
			more := w.many(n, n+b.N)
			b.ResetTimer()
			for _, name := range more {
				l.sync(b, w, name)
			}
			b.ReportMetric(cold.Seconds()*1000, "cold-ms")
			b.ReportMetric(coldCPU.Seconds()*1000, "cold-cpu-ms")
			b.ReportMetric(observe.Seconds()*1000, "observe-ms")
		})
	}
}

// processor is the processor time of this process.
func processor(b *testing.B) time.Duration {
	var u unix.Rusage
	must(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestCleanup takes away our tables, and nobody else's.
func TestCleanup(t *testing.T) {
	ownNetwork(t, "10.1.0.100")
	w := newWorld()
	w.service("web", "10.96.0.10")
	l := newProxy(t, w, Config{Services: prefixes([]string{"10.96.0.0/16", "fd00:96::/112"})})
	l.sync(t, w)
	other := nft.Table{Family: nft.IPv4, Name: "other"}
	b := nft.NewBatch(other)
	b.AddTable()
	must(t, l.conn.Commit(b))
	for range 2 { // with and without something to clean
		must(t, Cleanup())
		for _, tt := range []struct {
			name  string
			table nft.Table
			want  bool
		}{
			{"IPv4's", newLayout(false).table(), false},
			{"IPv6's", newLayout(true).table(), false},
			{"somebody else's", other, true},
		} {
			if there, err := l.conn.Exists(tt.table); err != nil || there != tt.want {
				t.Errorf("%s: %s is there: %v, %v", tt.name, tt.table, there, err)
			}
		}
	}
}
