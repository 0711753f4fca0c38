package proxy

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/internal/eventually"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/nft"
	"github.com/kloop-dev/kloop/resource"
)

// fed is a client that says what a test makes it say.
type fed struct {
	client.Client
	batches chan client.Batch
}

func (f *fed) Feed(...resource.Kind) client.Feed { return f }

func (f *fed) Reuse() {}

func (f *fed) Next(ctx context.Context) (client.Batch, error) {
	select {
	case b := <-f.batches:
		return b, nil
	case <-ctx.Done():
		return client.Batch{}, ctx.Err()
	}
}

// beside runs f in the network of the test's thread, on a thread of its own.
func beside(t testing.TB, wait *sync.WaitGroup, f func()) {
	t.Helper()
	ns, err := unix.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must(t, err)
	wait.Go(func() {
		runtime.LockOSThread()
		defer unix.Close(ns)
		if err := unix.Setns(ns, unix.CLONE_NEWNET); err != nil {
			t.Error(err)
			return
		}
		f()
	})
}

// TestRunMends runs the proxy as a node does, takes its table away behind its back, as restarting another firewall does, and
// waits for it to come back without any change in the cluster. Then it rests.
func TestRunMends(t *testing.T) {
	ownNetwork(t, "10.1.0.1", "192.0.2.1")
	answer(t, "10.1.0.1:8080")
	w := newWorld()
	w.service("web", "10.96.0.10", func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 30080 })
	w.ends("web", at("10.1.0.1"))
	f := &fed{batches: make(chan client.Batch, 10)}
	f.batches <- client.Batch{Read: w, Reset: true}
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer func() { cancel(); all.Wait() }()
	ready := make(chan struct{})
	beside(t, &all, func() {
		if err := Run(ctx, Config{Client: f, Node: "n1", Address: netip.MustParseAddr("192.0.2.1")}, func() { close(ready) }); err != nil {
			t.Error(err)
		}
	})
	<-ready
	answers := func() bool {
		_, _, err := askWithin(10*time.Second, "192.0.2.1:30080")
		return err == nil
	}
	if !answers() {
		t.Fatal("ready, and the service does not answer")
	}
	c, err := nft.Open()
	must(t, err)
	defer c.Close()
	for range 3 {
		b := nft.NewBatch(newLayout(false).table())
		b.DeleteTable()
		must(t, c.Commit(b))
		eventually.True(t, "the table does not come back", answers)
	}
	// A change goes in on top; then nobody wakes it.
	old := w.services[key{Namespace: "d", Name: "web"}]
	next := *old
	next.Spec.Ports = []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30081}}
	changed := newWorld()
	changed.services[key{Namespace: "d", Name: "web"}] = &next
	changed.ends("web", at("10.1.0.1"))
	f.batches <- client.Batch{Read: changed, Changes: []client.Change{{Kind: kinds.Services, Old: old, New: &next}}}
	eventually.True(t, "the new node port does not come",
		func() bool { _, _, err := askWithin(10*time.Second, "192.0.2.1:30081"); return err == nil })
	if _, _, err := askWithin(10*time.Second, "192.0.2.1:30080"); err == nil {
		t.Error("the old node port answers")
	}
}

// traffic makes TestNothingIsLost longer and stricter.
var traffic = flag.Bool("traffic", false, "connect while services change a thousand times, and want no segment sent twice")

// TestNothingIsLost has clients connect while the endpoints of their service, its sort of affinity and other services change all the time,
// and the proxy starts anew now and then. No connection fails or hangs. Whatever the kernel drops is sent again by the client's TCP,
// which counts that: when asked for (-traffic), for a machine that is busy enough sends again what only came late.
func TestNothingIsLost(t *testing.T) {
	ownNetwork(t, "10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4")
	answer(t, "10.1.0.1:8080", "10.1.0.2:8080", "10.1.0.3:8080", "10.1.0.4:8080")
	w := newWorld()
	w.many(0, 500)
	web := w.service("web", "10.96.0.10")
	w.ends("web", at("10.1.0.1"))
	l := newProxy(t, w, Config{})
	l.sync(t, w)
	before := retransmitted(t)
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	met := make([]int, 2)
	for i := range met {
		beside(t, &clients, func() {
			for ctx.Err() == nil {
				if _, _, err := askWithin(time.Minute, "10.96.0.10:80"); err != nil {
					t.Error(err)
					return
				}
				met[i]++
			}
		})
	}
	changes := 300
	if *traffic {
		changes = 1000
	}
	var took time.Duration
	for i := range changes {
		affinity := func(*corev1.Service) {}
		if i%50 >= 40 {
			affinity = sticky(int32(100 + i%3))
		}
		w.service("web", "10.96.0.10", affinity)
		w.ends("web", at("10.1.0.1"), at("10.1.0.2"), at("10.1.0.3"), at("10.1.0.4"))
		s := w.slices[web][0]
		s.Endpoints = s.Endpoints[i%4 : i%4+1+i*7%(4-i%4)]
		names := append(w.many(i%500, i%500+1), web)
		if i%100 == 50 { // another proxy finds all that there is
			l, names = newProxy(t, w, Config{}), nil
		}
		began := time.Now()
		l.sync(t, w, names...)
		took += time.Since(began)
	}
	cancel()
	clients.Wait()
	t.Logf("%d connections during %d changes of %v each", met[0]+met[1], changes, took/time.Duration(changes))
	if n := retransmitted(t) - before; n != 0 && *traffic {
		t.Errorf("%d segments were lost", n)
	}
	l.holds(t)
}

// retransmitted counts the segments that TCP sent again, in the network of this thread.
func retransmitted(t testing.TB) (n int) {
	t.Helper()
	text, err := os.ReadFile("/proc/thread-self/net/snmp")
	must(t, err)
	var names, values []string
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); words[0] == "Tcp:" {
			names, values = values, words
		}
	}
	for i, name := range names {
		if name == "RetransSegs" {
			_, err := fmt.Sscan(values[i], &n)
			must(t, err)
			return n
		}
	}
	t.Fatal("the kernel does not count what TCP sends again")
	return 0
}

// BenchmarkTraffic has clients connect to one service all the while: 30,000 others come at once, then one more at a time; then the proxy
// rests. It reports how long the first took by the clock, what the clients saw, and the processor time of a second at rest.
func BenchmarkTraffic(b *testing.B) {
	const services = 30_000
	ownNetwork(b, "10.1.0.1", "10.1.0.2")
	answer(b, "10.1.0.1:8080", "10.1.0.2:8080")
	w := newWorld()
	w.service("web", "10.96.0.10")
	w.ends("web", at("10.1.0.1"), at("10.1.0.2"))
	l := newProxy(b, w, Config{})
	l.sync(b, w)
	ctx, cancel := context.WithCancel(b.Context())
	var clients sync.WaitGroup
	var met, failed atomic.Int64
	lost := retransmitted(b)
	beside(b, &clients, func() {
		for ctx.Err() == nil {
			if _, _, err := askWithin(time.Minute, "10.96.0.10:80"); err != nil {
				failed.Add(1)
			}
			met.Add(1)
		}
	})
	names := w.many(0, services)
	began := time.Now()
	l.sync(b, w, names...)
	cold := time.Since(began)
	more := w.many(services, services+b.N)
	slowest := time.Duration(0)
	b.ResetTimer()
	for _, name := range more {
		began := time.Now()
		l.sync(b, w, name)
		slowest = max(slowest, time.Since(began))
	}
	b.StopTimer()
	cancel()
	clients.Wait()
	b.ReportMetric(cold.Seconds()*1000, "cold-ms")
	b.ReportMetric(slowest.Seconds()*1000, "slowest-ms")
	b.ReportMetric(float64(met.Load()), "connections")
	b.ReportMetric(float64(failed.Load()), "failed")
	b.ReportMetric(float64(retransmitted(b)-lost), "segments-lost")
	b.ReportMetric(atRest(b, w), "idle-cpu-ms/s")
}

// atRest runs the proxy as a node does, and returns its processor time in a second in which nothing happens.
func atRest(b *testing.B, w *world) float64 {
	const long = 5 * time.Second
	f := &fed{batches: make(chan client.Batch, 1)}
	f.batches <- client.Batch{Read: w, Reset: true}
	ctx, cancel := context.WithCancel(b.Context())
	var all sync.WaitGroup
	ready := make(chan struct{})
	beside(b, &all, func() {
		if err := Run(ctx, Config{Client: f, Node: "n1", Address: netip.MustParseAddr("10.1.0.100")}, func() { close(ready) }); err != nil {
			b.Error(err)
		}
	})
	<-ready
	runtime.GC()
	before := processor(b)
	time.Sleep(long) // what is measured is a time
	used := processor(b) - before
	cancel()
	all.Wait()
	return used.Seconds() * 1000 / long.Seconds()
}

// TestPause: what failed is tried again, a kernel that others change is listed once more, and else the loop waits for something to happen.
func TestPause(t *testing.T) {
	failed := errors.New("no")
	for _, c := range []struct {
		name           string
		wait           time.Duration
		failed, health error
		want           time.Duration
	}{
		{"all is well", 0, nil, nil, 0},
		{"others change the kernel", time.Millisecond, nil, nil, time.Millisecond},
		{"the kernel refused", time.Millisecond, failed, nil, retry},
		{"a port is taken", 0, nil, failed, retry},
		{"a port is taken while others change the kernel", time.Millisecond, nil, failed, time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := pause(c.wait, c.failed, c.health); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}
