package podnetwork

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/internal/eventually"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/podnetwork/wireguard"
	"github.com/kloop-dev/kloop/test/netspace"
	"github.com/kloop-dev/kloop/test/vm"
)

// secretModules are the kernel's that these tests need.
var secretModules = []string{"veth", "bridge", "wireguard", "vxlan", "nf_tables", "nft_chain_nat", "nft_masq", "nf_conntrack_netlink"}

// published is the key that a machine wrote into its Node last.
func (b *box) published() string {
	all := regexp.MustCompile(`"`+wellknown.WireGuardKey+`":"([^"]+)"`).FindAllStringSubmatch(b.client.told(), -1)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1][1]
}

// exchange tells all machines the keys of all.
func exchange(t *testing.T, boxes []*box, all nodes) nodes {
	t.Helper()
	var with nodes
	for i, b := range boxes {
		eventually.True(t, b.name+" tells no key", func() bool { return b.published() != "" })
		n := all[i].DeepCopy()
		n.Annotations = map[string]string{wellknown.WireGuardKey: b.published()}
		with = append(with, n)
	}
	for _, b := range boxes {
		b.client.states <- with
	}
	return with
}

// device reads the encrypted link of a machine.
func (b *box) device(t *testing.T) (d wireguard.Device) {
	t.Helper()
	b.Do(t, func() error {
		c, err := wireguard.Open()
		if err != nil {
			return err
		}
		defer c.Close()
		d, err = c.Device(Secret)
		return err
	})
	return d
}

// reach waits for the first answer from one pod to another.
func reach(t *testing.T, from, to *box) {
	t.Helper()
	eventually.True(t, fmt.Sprintf("the pod on %s does not reach that on %s", from.name, to.name), func() bool {
		seen, err := ask(from.pod, to.podIP+":80")
		return err == nil && seen == from.podIP
	})
}

// TestWireGuard: what pods of three machines say to each other is encrypted on every cable, and arrives; through restarts, other keys,
// ranges and addresses, and until a node is gone.
func TestWireGuard(t *testing.T) {
	if !vm.Run(t, vm.Config{Modules: secretModules, Timeout: 5 * time.Minute}) {
		return
	}
	s := newSite(t, 1500)
	s.begin(ModeWireGuard)
	for _, b := range s.boxes() {
		serve(t, b.pod, ":80")
		serve(t, b.Space, ":81")
	}
	taken := capture(t, s.router)
	if _, err := ask(s.a.pod, s.b.podIP+":80"); err == nil {
		t.Error("a pod is reached without a key")
	}
	all := exchange(t, s.boxes(), s.all())
	for _, from := range s.boxes() {
		for _, to := range s.boxes() {
			reach(t, from, to)
			if seen, err := ask(from.Space, to.podIP+":80"); err != nil {
				t.Errorf("%s to the pod on %s: seen as %q, %v", from.name, to.name, seen, err)
			}
		}
	}
	probes(t, s)
	restart(t, s, all)
	all = anotherKey(t, s, all)
	mended(t, s)
	taken.judge(t)
	if _, err := ask(s.a.pod, s.b.addr+":81"); err != nil {
		t.Errorf("a pod to a machine: %v", err)
	}
	moved(t, s, all)
	strangers(t, s, all)
	back(t, s, all)
}

// probes: the largest packet of a pod fits, to the machine behind the router, too.
func probes(t *testing.T, s *site) {
	if conf, err := os.ReadFile(s.a.conf); err != nil || !strings.Contains(string(conf), `"mtu": 1440`) {
		t.Errorf("the CNI configuration has another MTU: %s, %v", conf, err)
	}
	for size, want := range map[int]bool{1440: true, 1441: false} {
		if got, err := probe(t, s.a.pod, s.c.pod, s.c.podIP+":90", size); got != want {
			t.Errorf("%d bytes arrive: %v, %v", size, got, err)
		}
	}
}

// restart: the agent comes back with the same key, and nobody notices.
func restart(t *testing.T, s *site, all nodes) {
	before, key := s.a.device(t), s.a.published()
	var asked, lost atomic.Int64
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			default:
			}
			_, err := ask(s.b.pod, s.a.podIP+":80")
			if err != nil { // twice in turn: a busy machine may not come to it in time
				_, err = ask(s.b.pod, s.a.podIP+":80")
			}
			if err != nil {
				lost.Add(1)
			}
			asked.Add(1)
		}
	}()
	s.a.stop()
	s.a.start(ModeWireGuard, all)
	at := asked.Load()
	eventually.True(t, "nobody asks", func() bool { return asked.Load() > at+2 })
	close(end)
	<-ended
	if lost.Load() != 0 {
		t.Errorf("%d of %d connections were lost while the agent restarted", lost.Load(), asked.Load())
	}
	after := s.a.device(t)
	for k, p := range before.Peers {
		if q := after.Peers[k]; !p.Same(q) || q.Handshake.Before(p.Handshake) {
			t.Errorf("a peer before and after: %v, %v", p, q)
		}
	}
	if told := s.a.client.told(); after.Public != before.Public || strings.Contains(told, wellknown.WireGuardKey) {
		t.Errorf("key %s, then %s; wrote %s", key, after.Public, told)
	}
}

// anotherKey: b loses its key. Others take the new one, and forget the old one.
func anotherKey(t *testing.T, s *site, all nodes) nodes {
	s.b.stop()
	old := all[1].Annotations[wellknown.WireGuardKey]
	if err := os.Remove(s.b.key); err != nil {
		t.Fatal(err)
	}
	s.b.start(ModeWireGuard, all)
	eventually.True(t, "b tells no other key", func() bool { k := s.b.published(); return k != "" && k != old })
	next := nodes{all[0], all[1].DeepCopy(), all[2]}
	next[1].Annotations[wellknown.WireGuardKey] = s.b.published()
	s.tell(next)
	reach(t, s.a, s.b)
	reach(t, s.c, s.b)
	gone, err := wireguard.ParseKey(old)
	if err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "a keeps the old key", func() bool { _, there := s.a.device(t).Peers[gone]; return !there })
	return next
}

// mended: somebody takes the link away.
func mended(t *testing.T, s *site) {
	s.a.Do(t, func() error {
		l, err := netlink.LinkByName(Secret)
		if err != nil {
			return err
		}
		return netlink.LinkDel(l)
	})
	reach(t, s.a, s.b)
	reach(t, s.c, s.a)
}

// moved: c comes back with another range, and at another address.
func moved(t *testing.T, s *site, all nodes) {
	const to = "198.51.100.33"
	s.c.Do(t, func() error { return give("eth0", to+"/24") })
	next := nodes{all[0], all[1], node("c", to, "10.88.7.0/24")}
	next[2].Annotations = all[2].Annotations
	s.tell(next)
	key, err := wireguard.ParseKey(next[2].Annotations[wellknown.WireGuardKey])
	if err != nil {
		t.Fatal(err)
	}
	want := wireguard.Peer{Endpoint: netip.MustParseAddrPort(to + ":51820"), Keepalive: keepalive,
		Allowed: []netip.Prefix{netip.MustParsePrefix("10.88.7.0/24")}}
	eventually.True(t, "a has c where it was", func() bool { return s.a.device(t).Peers[key].Same(want) })
	s.tell(next[:2]) // and then it is gone
	eventually.True(t, "a keeps what was c's", func() bool {
		_, there := s.a.device(t).Peers[key]
		return !there && maps.Equal(routes(t, s.a), map[string]string{"10.88.1.0/24": Secret})
	})
	reach(t, s.a, s.b)
}

// strangers: the Node of a says who does not answer, and that it is well itself.
func strangers(t *testing.T, s *site, all nodes) {
	next := nodes{all[0], all[1], keyed(node("d", "192.0.2.77", "10.88.9.0/24"), 9)}
	s.a.client.states <- next
	eventually.True(t, "the Node does not say who is silent", func() bool {
		told := s.a.client.told()
		return strings.Contains(told, wellknown.SilentPeers) && strings.Contains(told, "d: no answer from 192.0.2.77:51820")
	})
	if told := s.a.client.told(); strings.Contains(told, reasonTrouble) || strings.Contains(told, "b: no answer") {
		t.Errorf("told: %s", told)
	}
}

// back: the network goes without encryption again.
func back(t *testing.T, s *site, all nodes) {
	plain := s.all()[:2]
	plain[0].Annotations = all[0].Annotations
	plain[0].Status.Conditions = []corev1.NodeCondition{{Type: wellknown.SilentPeers, Status: corev1.ConditionTrue}}
	for _, b := range s.boxes()[:2] {
		b.stop()
		b.start(ModeAuto, plain)
	}
	reach(t, s.a, s.b)
	eventually.True(t, "what was written stays", func() bool {
		told := s.a.client.told()
		return strings.Contains(told, `"`+wellknown.WireGuardKey+`":null`) && strings.Contains(told, `"$patch":"delete"`)
	})
	s.a.Do(t, func() error {
		if _, err := netlink.LinkByName(Secret); err == nil {
			return fmt.Errorf("the link is still there")
		}
		return nil
	})
}

// TestWireGuardFamilies: clusters of either family and of both, over machines of either.
func TestWireGuardFamilies(t *testing.T) {
	if !vm.Run(t, vm.Config{Modules: secretModules, Timeout: 5 * time.Minute}) {
		return
	}
	for _, p := range []plot{{"IPv6 alone", []string{"6"}, []string{"6"}}, {"both over IPv4", []string{"4"}, []string{"4", "6"}},
		{"both over IPv6", []string{"6"}, []string{"6", "4"}}} {
		t.Run(p.name, func(t *testing.T) { walk(t, p, ModeWireGuard) })
	}
}

// A wiretap has what went over the cables.
type wiretap struct {
	fd     int
	sealed atomic.Int64
	plain  atomic.Pointer[string] // the first packet that could be read
	done   chan struct{}
}

// capture looks at every packet in a namespace.
func capture(t *testing.T, in netspace.Space) *wiretap {
	w := &wiretap{done: make(chan struct{})}
	in.Do(t, func() (err error) {
		w.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(htons(unix.ETH_P_ALL)))
		if err != nil {
			return err
		}
		return unix.SetsockoptTimeval(w.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50000})
	})
	end := make(chan struct{})
	go func() {
		defer close(w.done)
		frame := make([]byte, 2048)
		for {
			n, _, err := unix.Recvfrom(w.fd, frame, 0)
			select {
			case <-end:
				return
			default:
			}
			if err == nil {
				w.take(frame[:n])
			}
		}
	}()
	t.Cleanup(func() {
		close(end)
		<-w.done
		unix.Close(w.fd)
	})
	return w
}

func htons(n uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], n)
	return binary.NativeEndian.Uint16(b[:])
}

// take judges a frame of IPv4 that is not an error message of the router's.
func (w *wiretap) take(frame []byte) {
	const ethernet, header = 14, 20
	if len(frame) < ethernet+header+8 || binary.BigEndian.Uint16(frame[12:]) != unix.ETH_P_IP {
		return
	}
	packet := frame[ethernet:]
	if packet[9] == unix.IPPROTO_IGMP {
		return // a machine says which groups it listens to
	}
	udp := packet[int(packet[0]&15)*4:]
	if packet[9] == unix.IPPROTO_UDP && len(udp) >= 8 && binary.BigEndian.Uint16(udp[2:]) == SecretPort {
		w.sealed.Add(1)
		return
	}
	text := fmt.Sprintf("protocol %d from %s to %s", packet[9], net.IP(packet[12:16]), net.IP(packet[16:20]))
	w.plain.CompareAndSwap(nil, &text)
}

// judge: only sealed packets went by.
func (w *wiretap) judge(t *testing.T) {
	t.Helper()
	if p := w.plain.Load(); p != nil || w.sealed.Load() == 0 {
		first := "none"
		if p != nil {
			first = *p
		}
		t.Errorf("%d sealed packets, and of others: %s", w.sealed.Load(), first)
	}
	t.Logf("%d sealed packets", w.sealed.Load())
}
