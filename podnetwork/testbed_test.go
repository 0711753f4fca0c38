package podnetwork

import (
	"context"
	"fmt"
	"iter"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/test/netspace"
)

// bridge makes one. It has an address of its own from the beginning: without, it takes that of its least port.
func bridge(name string) error {
	b := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}
	if err := netlink.LinkAdd(b); err != nil {
		return err
	}
	return netspace.Up(name)
}

// wire joins two namespaces by a cable whose far end, if a bridge is named, is plugged into it.
func wire(t testing.TB, a netspace.Space, name string, b netspace.Space, far, into string, mtu int) {
	t.Helper()
	b.Do(t, func() error {
		v := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: far, MTU: mtu}, PeerName: name, PeerNamespace: netlink.NsFd(int(a))}
		if err := netlink.LinkAdd(v); err != nil {
			return err
		}
		if into != "" {
			br, err := netlink.LinkByName(into)
			if err != nil {
				return err
			}
			if err := netlink.LinkSetMaster(v, br); err != nil {
				return err
			}
		}
		return netspace.Up(far)
	})
	a.Do(t, func() error {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if err := netlink.LinkSetMTU(l, mtu); err != nil {
			return err
		}
		return netlink.LinkSetUp(l)
	})
}

func give(link, addr string) error {
	l, err := netlink.LinkByName(link)
	if err != nil {
		return err
	}
	return netlink.AddrAdd(l, &netlink.Addr{IPNet: ipNet(netip.MustParsePrefix(addr)), Flags: unix.IFA_F_NODAD})
}

func via(link, to, gateway string) error {
	l, err := netlink.LinkByName(link)
	if err != nil {
		return err
	}
	r := &netlink.Route{LinkIndex: l.Attrs().Index, Dst: ipNet(netip.MustParsePrefix(to)), Gw: netip.MustParseAddr(gateway).AsSlice()}
	return netlink.RouteReplace(r)
}

// nodes is a cluster's Nodes at one moment.
type nodes []*corev1.Node

func (n nodes) Revision(resource.Kind) int64 { return 1 }
func (n nodes) Lookup(_ resource.Kind, _, name string) resource.Object {
	for _, o := range n {
		if o.Name == name {
			return o
		}
	}
	return nil
}
func (n nodes) Each(resource.Kind, string) iter.Seq[resource.Object] {
	return func(yield func(resource.Object) bool) {
		for _, o := range n {
			if !yield(o) {
				return
			}
		}
	}
}
func (n nodes) ByOwner(resource.Kind, string) iter.Seq[resource.Object]         { return nil }
func (n nodes) ByField(resource.Kind, string, string) iter.Seq[resource.Object] { return nil }
func (n nodes) ByLabel(resource.Kind, string, string, string) iter.Seq[resource.Object] {
	return nil
}

// node makes one: its age is in its name's order unless it says otherwise.
func node(name, addr string, ranges ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDRs: ranges}}
	if addr != "" {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: addr}}
	}
	return n
}

// reading is a client that only reads: each snapshot sent to it is a change of the cluster.
type reading struct {
	client.Client
	states  chan resource.Reader
	mu      sync.Mutex
	patches []string
}

func (r *reading) Feed(...resource.Kind) client.Feed { return r }

func (r *reading) Reuse() {}

func (r *reading) Next(ctx context.Context) (client.Batch, error) {
	select {
	case s := <-r.states:
		return client.Batch{Read: s, Reset: true}, nil
	case <-ctx.Done():
		return client.Batch{}, ctx.Err()
	}
}

func (r *reading) Patch(_ context.Context, _ resource.Kind, _, name string, p client.Patch) (resource.Object, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.patches = append(r.patches, name+" "+p.Sub+" "+string(p.Data))
	return nil, nil
}

func (r *reading) told() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.patches, "\n")
}

// A box is a machine of the testbed: a namespace in which a pod network runs, and a pod.
type box struct {
	netspace.Space
	t      testing.TB
	name   string
	addr   string // of the machine
	client *reading
	conf   string
	key    string // file
	pod    netspace.Space
	podIP  string
	stop   func()
}

// start runs the pod network until stop or the test's end.
func (b *box) start(mode string, at nodes) {
	b.t.Helper()
	b.client = &reading{states: make(chan resource.Reader)}
	ctx, cancel := context.WithCancel(b.t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	cfg := Config{Client: b.client, Self: b.client, Node: b.name, Mode: mode, KeyFile: b.key, CNI: CNI{File: b.conf, Dir: "/var/lib/cni"}}
	go func() { done <- b.Run(func() error { return Run(ctx, cfg, func() { close(ready) }) }) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			b.t.Error(err)
		}
	})
	b.t.Cleanup(b.stop)
	b.client.states <- at
	select {
	case <-ready:
	case err := <-done:
		b.t.Fatal(err)
	}
}

// attach gives the machine a pod at the address, as the bridge plugin does: on cni0, whose address is the range's first.
func (b *box) attach(gateway, ip string, mtu int) {
	b.t.Helper()
	b.Do(b.t, func() error {
		if _, err := netlink.LinkByName(Bridge); err == nil {
			return nil
		}
		if err := bridge(Bridge); err != nil {
			return err
		}
		l, err := netlink.LinkByName(Bridge)
		if err != nil {
			return err
		}
		if err := netlink.LinkSetMTU(l, mtu); err != nil {
			return err
		}
		return give(Bridge, gateway+"/24")
	})
	b.pod, b.podIP = netspace.New(b.t), ip
	wire(b.t, b.pod, "eth0", b.Space, "veth"+strings.ReplaceAll(ip, ".", ""), Bridge, mtu)
	b.pod.Do(b.t, func() error {
		if err := give("eth0", ip+"/24"); err != nil {
			return err
		}
		return via("eth0", "0.0.0.0/0", gateway)
	})
}

// A site is three machines: a and b on one link, c behind a router.
type site struct {
	a, b, c *box
	router  netspace.Space
	mtu     int
}

// all are the nodes of the site.
func (s *site) all() nodes {
	return nodes{node("a", s.a.addr, "10.88.0.0/24"), node("b", s.b.addr, "10.88.1.0/24"), node("c", s.c.addr, "10.88.2.0/24")}
}

func (s *site) boxes() []*box { return []*box{s.a, s.b, s.c} }

func newSite(t testing.TB, mtu int) *site {
	s := &site{router: netspace.New(t), mtu: mtu}
	s.router.Do(t, func() error {
		if err := bridge("lan1"); err != nil {
			return err
		}
		if err := bridge("lan2"); err != nil {
			return err
		}
		for link, addr := range map[string]string{"lan1": "192.0.2.254/24", "lan2": "198.51.100.254/24"} {
			if err := give(link, addr); err != nil {
				return err
			}
		}
		return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644)
	})
	for i, at := range []struct{ name, lan, addr, gateway string }{{"a", "lan1", "192.0.2.1", "192.0.2.254"},
		{"b", "lan1", "192.0.2.2", "192.0.2.254"}, {"c", "lan2", "198.51.100.3", "198.51.100.254"}} {
		dir := t.TempDir()
		b := &box{Space: netspace.New(t), t: t, name: at.name, addr: at.addr, key: filepath.Join(dir, "key"),
			conf: filepath.Join(dir, "net.d", "10-kloop.conflist")}
		wire(t, b.Space, "eth0", s.router, "to-"+at.name, at.lan, mtu)
		b.Do(t, func() error {
			if err := give("eth0", at.addr+"/24"); err != nil {
				return err
			}
			return via("eth0", "0.0.0.0/0", at.gateway)
		})
		*[]**box{&s.a, &s.b, &s.c}[i] = b
	}
	return s
}

// begin runs the pod network on all machines, and gives each a pod.
func (s *site) begin(mode string) {
	overhead := overhead4
	if mode == ModeWireGuard {
		overhead = secretOverhead4
	}
	for i, b := range s.boxes() {
		b.start(mode, s.all())
		b.attach(fmt.Sprintf("10.88.%d.1", i), fmt.Sprintf("10.88.%d.5", i), s.mtu-overhead)
	}
}

// tell sends all machines a new state of the Nodes.
func (s *site) tell(n nodes) {
	for _, b := range s.boxes() {
		b.client.states <- n
	}
}
