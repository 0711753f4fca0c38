//go:build linux

package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/internal/eventually"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/test/vm"
)

// told is a client that remembers what was written to the Node.
type told struct {
	fed
	world *world
	last  atomic.Pointer[string]
}

func (c *told) Read() resource.Reader { return c.world }

func (c *told) Patch(_ context.Context, _ resource.Kind, _, _ string, p client.Patch) (resource.Object, error) {
	text := string(p.Data)
	c.last.Store(&text)
	return nil, nil
}

func (c *told) says(words ...string) bool {
	text := c.last.Load()
	for _, w := range words {
		if text == nil || !strings.Contains(*text, w) {
			return false
		}
	}
	return true
}

// modulesMissing starts in mode ipvs where the kernel has none of it: the tables serve, the Node names the modules, and once they are
// loaded, some first and then the others, virtual servers serve, without a restart.
func modulesMissing(t *testing.T) {
	ownNetwork(t, "10.1.0.1", "192.0.2.1")
	answer(t, "10.1.0.1:8080")
	w := newWorld()
	w.others[kinds.Nodes] = []resource.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}}
	w.service("web", "10.96.0.10", func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 30080 })
	w.ends("web", at("10.1.0.1"))
	c := &told{fed: fed{batches: make(chan client.Batch, 1)}, world: w}
	c.batches <- client.Batch{Read: w, Reset: true}
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer func() { cancel(); all.Wait() }()
	ready := make(chan struct{})
	beside(t, &all, func() {
		cfg := Config{Client: c, Self: c, Node: "n1", Address: netip.MustParseAddr("192.0.2.1"), Mode: ModeIPVS, IPVS: IPVS{Scheduler: "lc"}}
		if err := Run(ctx, cfg, func() { close(ready) }); err != nil {
			t.Error(err)
		}
	})
	<-ready
	answers := func() bool {
		_, _, err := askWithin(10*time.Second, "192.0.2.1:30080")
		return err == nil
	}
	if !answers() {
		t.Error("the service does not answer while modules are missing")
	}
	if loaded("ip_vs") {
		t.Fatal("this kernel has IPVS already")
	}
	eventually.True(t, "the Node does not name the modules", func() bool {
		return c.says("[ip_vs ip_vs_lc dummy]", "modprobe -a ip_vs ip_vs_lc dummy", "/etc/modules-load.d/", `"status":"True"`)
	})
	must(t, errors.Join(vm.Load("ip_vs"), vm.Load("ip_vs_rr"), vm.Load("dummy")))
	eventually.True(t, "the Node does not name the scheduler's module", func() bool { return c.says("[ip_vs_lc]") })
	if _, err := netlink.LinkByName(dummyName); !isMissing(err) {
		t.Errorf("%s is there: %v", dummyName, err)
	}
	if strings.Contains(virtualServers(t), "TCP ") || !answers() {
		t.Errorf("half of it:\n%s", virtualServers(t))
	}
	must(t, vm.Load("ip_vs_lc"))
	eventually.True(t, "IPVS does not serve", func() bool { return strings.Contains(virtualServers(t), "TCP  0A60000A:0050 lc") })
	eventually.True(t, "the Node does not say so", func() bool { return c.says("scheduler lc", `"status":"False"`) })
	if !answers() {
		t.Error("the service does not answer from its virtual server")
	}
}

// TestVirtualAddressIPVS: an address of a service is nothing but its services', whoever asks; and a machine's address stays the machine's.
func TestVirtualAddressIPVS(t *testing.T) {
	if !inIPVS {
		t.Skip("TestIPVS runs it in its guest")
	}
	c := newTown(t)
	answer(t, "0.0.0.0:82")
	const elsewhere = "203.0.113.77"
	c.w.others[kinds.Nodes] = append(c.w.others[kinds.Nodes], &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: elsewhere}}}})
	c.w.service("one", "10.96.0.10", func(s *corev1.Service) {
		s.Spec.ExternalIPs = []string{externalAddr, elsewhere}
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: balancerIP}, {IP: elsewhere}}
	})
	c.w.ends("one", at(podIP))
	c.l.sync(t, c.w)
	c.l.holds(t)
	for _, from := range []string{"abroad", "pod", "node"} {
		for _, ip := range []string{"10.96.0.10", balancerIP, externalAddr} {
			want := podIP + " saw 10.1.0.1"
			if from == "pod" && ip == "10.96.0.10" {
				want = podIP + " saw " + otherIP
			}
			if got := c.from(from, ip+":80", want); got != want {
				t.Errorf("from %s to %s: %s, want %s", from, ip, got, want)
			}
			if got := c.from(from, ip+":82", "refused"); got != "refused" {
				t.Errorf("from %s to %s, where a program of the machine listens: %s", from, ip, got)
			}
		}
	}
	if c.l.book.addresses()[netip.MustParseAddr(elsewhere)] {
		t.Error("another node's address is taken from it")
	}
}

// endsGracefully keeps a connection to an endpoint that goes, gives it no new ones, and takes it away when the connection is over.
func endsGracefully(t *testing.T) {
	ownNetwork(t, "10.1.0.1", "10.1.0.2", "10.1.0.100")
	echoes(t, "10.1.0.1:8080")
	answer(t, "10.1.0.2:8080")
	w := newWorld()
	name := w.service("web", "10.96.0.12")
	w.ends("web", at("10.1.0.1"))
	l := newProxy(t, w, Config{IPVS: IPVS{TCPFinTimeout: time.Second}})
	l.sync(t, w)
	c, err := net.Dial("tcp", "10.96.0.12:80")
	must(t, err)
	alive := func() {
		t.Helper()
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		_, err := c.Write([]byte("x"))
		must(t, err)
		_, err = io.ReadFull(c, make([]byte, 1))
		must(t, err)
	}
	alive()
	w.ends("web", at("10.1.0.2"))
	l.sync(t, w, name)
	alive()
	for range 5 {
		if who, _, err := ask("10.96.0.12:80"); err != nil || who != "10.1.0.2:8080" {
			t.Errorf("a new connection met %q, %v", who, err)
		}
	}
	const gone = "0A010001:1F90"
	l.tend()
	if !strings.Contains(virtualServers(t), gone) {
		t.Errorf("the endpoint went before its connection:\n%s", virtualServers(t))
	}
	// The service goes too, and the connection stays.
	delete(w.services, name)
	l.sync(t, w, name)
	alive()
	if got := outcome(ask("10.96.0.12:80")); got != "refused" {
		t.Errorf("a new connection to a service that is gone: %s", got)
	}
	must(t, c.(*net.TCPConn).SetLinger(0)) // a reset: the kernel forgets those after 10 s
	must(t, c.Close())
	eventually.True(t, "the endpoint stays", func() bool { l.tend(); return !strings.Contains(virtualServers(t), gone) })
}

// echoes gives back what it is sent.
func echoes(t *testing.T, at string) {
	t.Helper()
	l, err := net.Listen("tcp", at)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); c.Close() }()
		}
	}()
}

// answersARP asks from outside who has a load balancer's address: nobody, unless the setting lets the kernel answer.
func answersARP(t *testing.T) {
	ownNetwork(t, nodeIP)
	addr := netip.MustParseAddr
	abroad := newPlace(t, "abroad", addr("203.0.113.1"), addr(abroadIP))
	w := newWorld()
	w.service("web", "10.96.0.12", func(s *corev1.Service) { s.Spec.ExternalIPs = []string{balancerIP} })
	w.ends("web", at(nodeIP))
	who := func(ip string) (answered bool) {
		abroad.run(func() error {
			link, err := netlink.LinkByName("eth0")
			if err != nil {
				return err
			}
			_ = netlink.RouteReplace(&netlink.Route{LinkIndex: link.Attrs().Index, Scope: netlink.SCOPE_LINK,
				Dst: &net.IPNet{IP: net.ParseIP(ip), Mask: net.CIDRMask(32, 32)}})
			_, _, err = askWithin(10*time.Second, ip+":9")
			answered = errors.Is(err, syscall.ECONNREFUSED)
			return nil
		})
		return answered
	}
	for _, loose := range []bool{true, false} {
		l := newProxy(t, w, Config{IPVS: IPVS{LooseARP: loose}})
		l.sync(t, w)
		ip := map[bool]string{true: balancerIP, false: externalAddr}[loose]
		w.service("web", "10.96.0.12", func(s *corev1.Service) { s.Spec.ExternalIPs = []string{ip} })
		l.sync(t, w, key{Namespace: "d", Name: "web"})
		if got := who(ip); got != loose {
			t.Errorf("strictARP %v: the kernel answers: %v", !loose, got)
		}
		if !who("203.0.113.1") {
			t.Error("it does not answer for its own address")
		}
	}
	text, err := os.ReadFile(answers[0].file)
	if err != nil || strings.TrimSpace(string(text)) != "1" {
		t.Errorf("arp_ignore is %s, %v", text, err)
	}
}

// TestListMark holds the mark that the plan computes to what fits beside masquerade, for numbers of all sorts.
func TestListMark(t *testing.T) {
	for _, id := range []uint64{0, 1, 1<<64 - 1, digest("a"), digest("b")} {
		if m := listMark(id); m&masquerade != 0 || m&marked == 0 || m&0x8000 != 0 || m != listMark(id|1) {
			t.Errorf("%#x: %#x", id, m)
		}
	}
	if unix.IPPROTO_UDP != protocolNumber(corev1.ProtocolUDP) {
		t.Error("the number of UDP")
	}
}
