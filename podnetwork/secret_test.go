package podnetwork

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/internal/eventually"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/podnetwork/wireguard"
	"github.com/kloop-dev/kloop/test/netspace"
)

// keyed is a node that tells a key.
func keyed(n *corev1.Node, key byte) *corev1.Node {
	n.Annotations = map[string]string{wellknown.WireGuardKey: wireguard.Key{key}.String()}
	return n
}

// drawSecret writes routes, addresses and peers, in order.
func drawSecret(s state) string {
	var list []string
	for p, r := range s.routes {
		list = append(list, fmt.Sprintf("%s dev %s src %v", p, r.link, r.src))
	}
	for k, p := range s.secret.peers {
		list = append(list, fmt.Sprintf("%s %d at %s has %v", s.secret.names[k], k[0], p.Endpoint, p.Allowed))
	}
	for p := range s.secret.addrs {
		list = append(list, fmt.Sprintf("own %s", p))
	}
	slices.Sort(list)
	return fmt.Sprintf("mtu %d: %s", s.mtu, strings.Join(list, ", "))
}

func TestPlanSecret(t *testing.T) {
	a := func() *corev1.Node { return keyed(node("a", "192.0.2.1", "10.88.0.0/24"), 1) }
	b := func() *corev1.Node { return keyed(node("b", "192.0.2.2", "10.88.1.0/24"), 2) }
	noted := func(n *corev1.Node, name, text string) *corev1.Node {
		n.Annotations[name] = text
		return n
	}
	const leads = "10.88.1.0/24 dev kloop-wg src 10.88.0.0"
	const peer = ", b 2 at 192.0.2.2:51820 has [10.88.1.0/24], own 10.88.0.0/32"
	const own = ", own 10.88.0.0/32"
	for _, c := range []struct {
		name  string
		nodes nodes
		want  string
		mute  string
	}{
		{"two", nodes{a(), b()}, "mtu 1440: " + leads + peer, ""},
		{"no key yet", nodes{a(), node("b", "192.0.2.2", "10.88.1.0/24")},
			"mtu 1440: " + leads + own, "b: its Node has no annotation"},
		{"no key at all", nodes{a(), noted(b(), wellknown.WireGuardKey, "hello")}, "mtu 1440: " + leads + own, "is no key"},
		{"the key of this node", nodes{a(), keyed(b(), 1)}, "mtu 1440: " + leads + own, "its key is that of node a"},
		{"no address", nodes{a(), keyed(node("b", "", "10.88.1.0/24"), 2)}, "mtu 1440: " + leads + own, "tells no address"},
		{"elsewhere", nodes{a(), noted(b(), wellknown.WireGuardEndpoint, "203.0.113.5:7")},
			"mtu 1340: " + leads + ", b 2 at 203.0.113.5:7 has [10.88.1.0/24]" + own, ""},
		{"elsewhere, over IPv6", nodes{a(), noted(b(), wellknown.WireGuardEndpoint, "[2001:db8::5]:7")},
			"mtu 1420: " + leads + ", b 2 at [2001:db8::5]:7 has [10.88.1.0/24]" + own, ""},
		{"nowhere", nodes{a(), noted(b(), wellknown.WireGuardEndpoint, "b.example:7")}, "mtu 1440: " + leads + own, "is not ADDRESS:PORT"},
		{"one key twice", nodes{a(), b(), keyed(node("c", "192.0.2.3", "10.88.2.0/24"), 2)}, "mtu 1440: " + leads +
			", 10.88.2.0/24 dev kloop-wg src 10.88.0.0" + peer, "c: its key is that of node b"},
		{"two families", nodes{keyed(node("a", "192.0.2.1", "10.88.0.0/24", "fd88::/64"), 1),
			keyed(node("b", "192.0.2.2", "fd88:0:0:1::/64", "10.88.1.0/24"), 2)}, "mtu 1440: " + leads +
			", b 2 at 192.0.2.2:51820 has [10.88.1.0/24 fd88:0:0:1::/64], fd88:0:0:1::/64 dev kloop-wg src fd88::" + own +
			", own fd88::/128", ""},
		{"IPv6 below", nodes{keyed(node("a", "2001:db8::1", "10.88.0.0/24"), 1), keyed(node("b", "2001:db8::2", "10.88.1.0/24"), 2)},
			"mtu 1420: " + leads + ", b 2 at [2001:db8::2]:51820 has [10.88.1.0/24]" + own, ""},
	} {
		g := ground{mtu: 1500, public: wireguard.Key{1}, ways: map[netip.Addr]way{addr("203.0.113.5"): {"ppp0", false, 1400}}}
		want, _ := plan(newCensus(c.nodes, "a"), g, ModeWireGuard)
		if got := drawSecret(want); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
		mute := strings.Join(want.secret.mute, "\n")
		if (mute == "") != (c.mute == "") || !strings.Contains(mute, c.mute) {
			t.Errorf("%s: mute %q, want %q", c.name, mute, c.mute)
		}
		if want.tunnel != nil {
			t.Errorf("%s: a tunnel that encrypts nothing", c.name)
		}
	}
	if alone, _ := plan(newCensus(nodes{a()}, "a"), ground{mtu: 1500}, ModeWireGuard); alone.secret != nil || alone.mtu != 1440 {
		t.Errorf("alone: %+v", alone)
	}
}

// TestListen: a peer has some time to answer, and after that is told; one that answers again is not.
func TestListen(t *testing.T) {
	key, now := wireguard.Key{2}, time.Now()
	want := state{secret: &secret{names: map[wireguard.Key]string{key: "b"},
		peers: map[wireguard.Key]wireguard.Peer{key: {Endpoint: netip.MustParseAddrPort("192.0.2.2:51820")}}}}
	l := &loop{kernel: &kernel{met: map[wireguard.Key]time.Time{}}, waiting: map[wireguard.Key]time.Time{}}
	l.listen(want)
	if l.silent != "" || l.ask() != retry {
		t.Errorf("at once: %q, again in %s", l.silent, l.ask())
	}
	l.waiting[key] = now.Add(-patience)
	l.kernel.met[key] = now.Add(-stale)
	l.listen(want)
	c := l.peers()
	if !strings.Contains(c.Message, "b: no answer from 192.0.2.2:51820") || c.Status != corev1.ConditionTrue || l.ask() != patience {
		t.Errorf("later: %+v, again in %s", c, l.ask())
	}
	l.kernel.met[key] = now
	l.listen(want)
	if l.silent != "" || l.ask() != 0 || l.peers().Status != corev1.ConditionFalse {
		t.Errorf("it answered: %q, again in %s", l.silent, l.ask())
	}
	l.kernel.met[key] = time.Time{}
	l.listen(want)
	l.listen(state{})
	if len(l.waiting) != 0 {
		t.Errorf("a node that is gone: %v", l.waiting)
	}
}

// TestNoWireGuard: on a kernel without it the Node says what to do, and nothing leaves unencrypted.
func TestNoWireGuard(t *testing.T) {
	here := netspace.New(t)
	err := here.Run(func() error {
		w := &netlink.Wireguard{LinkAttrs: netlink.NewLinkAttrs()}
		w.Name = "probe"
		return netlink.LinkAdd(w)
	})
	if !errors.Is(err, unix.EOPNOTSUPP) {
		t.Skipf("this kernel has WireGuard: %v", err)
	}
	s := newSite(t, 1500)
	s.begin(ModeAuto)
	serve(t, s.b.pod, ":80")
	eventually.True(t, "no way in the beginning", func() bool { _, err := ask(s.a.pod, s.b.podIP+":80"); return err == nil })
	s.a.stop()
	s.a.start(ModeWireGuard, s.all())
	eventually.True(t, "the Node does not say what is wrong", func() bool {
		return strings.Contains(s.a.client.told(),
			"modprobe wireguard")
	})
	if got := routes(t, s.a); len(got) != 0 {
		t.Errorf("routes %v", got)
	}
	s.a.Do(t, func() error { return via("eth0", "10.88.1.0/24", s.b.addr) }) // by somebody else's route it would work
	if seen, err := ask(s.a.Space, s.b.podIP+":80"); err == nil {
		t.Errorf("a packet left unencrypted: seen as %s", seen)
	}
}
