package netpolicy

import (
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/internal/eventually"
	"github.com/kloop-dev/kloop/internal/testpolicy"
	"github.com/kloop-dev/kloop/test/netspace"
)

// A listener notes all that reaches a pod: every connection that was accepted and every datagram that came.
type listener struct {
	mu    sync.Mutex
	heard map[string]bool
}

func (l *listener) note(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard[what] = true
}

func (l *listener) has(what string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heard[what]
}

// listen opens the ports of a pod, and notes every connection that comes.
func (l *listener) listen(t *testing.T, in netspace.Space, at netip.Addr) {
	l.listenSCTP(t, in, at)
	for port := uint16(79); port <= 83; port++ {
		where := netip.AddrPortFrom(at, port).String()
		in.Do(t, func() error {
			tcp, err := net.Listen("tcp", where)
			if err != nil {
				return err
			}
			t.Cleanup(func() { tcp.Close() })
			udp, err := net.ListenPacket("udp", where)
			if err != nil {
				return err
			}
			t.Cleanup(func() { udp.Close() })
			go func() {
				for c, err := tcp.Accept(); err == nil; c, err = tcp.Accept() {
					l.note(Connection{netip.MustParseAddrPort(c.RemoteAddr().String()).Addr(), at, corev1.ProtocolTCP, port}.String())
					c.Close()
				}
			}()
			go func() {
				text := make([]byte, 100)
				for n, from, err := udp.ReadFrom(text); err == nil; n, from, err = udp.ReadFrom(text) {
					l.note(string(text[:n]) + Connection{netip.MustParseAddrPort(from.String()).Addr(), at, corev1.ProtocolUDP, port}.String())
				}
			}()
			return nil
		})
	}
}

// raw names a pod's packets of SCTP, for which the kernel need have no sockets.
func raw(a netip.Addr) string {
	if a.Is6() {
		return "ip6:132"
	}
	return "ip4:132"
}

// listenSCTP notes every first packet of an association that comes.
func (l *listener) listenSCTP(t *testing.T, in netspace.Space, at netip.Addr) {
	in.Do(t, func() error {
		all, err := net.ListenPacket(raw(at), at.String())
		if err != nil {
			return err
		}
		t.Cleanup(func() { all.Close() })
		go func() {
			packet := make([]byte, 100)
			for n, from, err := all.ReadFrom(packet); err == nil; n, from, err = all.ReadFrom(packet) {
				if n == len(initiation(0)) {
					l.note(Connection{netip.MustParseAddr(from.String()), at, corev1.ProtocolSCTP, binary.BigEndian.Uint16(packet[2:])}.String())
				}
			}
		}()
		return nil
	})
}

// initiation is the first packet of an association: the common header and an INIT (RFC 9260, 3.3.2).
func initiation(port uint16) []byte {
	p := binary.BigEndian.AppendUint16(nil, 40000)
	p = binary.BigEndian.AppendUint16(p, port)
	p = append(p, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 20, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1)
	binary.LittleEndian.PutUint32(p[8:], crc32.Checksum(p, crc32.MakeTable(crc32.Castagnoli)))
	return p
}

// dial sends the first packet of connections from a namespace, and does not wait for an answer.
func dial(t *testing.T, in netspace.Space, list []Connection, text string) {
	in.Do(t, func() error {
		for _, c := range list {
			if c.Protocol == corev1.ProtocolSCTP {
				conn, err := net.Dial(raw(c.To), c.To.String())
				if err == nil {
					_, err = conn.Write(initiation(c.Port))
					conn.Close()
				}
				if err != nil {
					return fmt.Errorf("%v: %w", c, err)
				}
				continue
			}
			kind := unix.SOCK_STREAM
			if c.Protocol == corev1.ProtocolUDP {
				kind = unix.SOCK_DGRAM
			}
			family, to := unix.AF_INET, unix.Sockaddr(&unix.SockaddrInet4{Port: int(c.Port), Addr: as4(c.To)})
			if c.To.Is6() {
				family, to = unix.AF_INET6, &unix.SockaddrInet6{Port: int(c.Port), Addr: c.To.As16()}
			}
			fd, err := unix.Socket(family, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			t.Cleanup(func() { unix.Close(fd) })
			if err := unix.Connect(fd, to); err != nil && err != unix.EINPROGRESS {
				return fmt.Errorf("%v: %w", c, err)
			}
			if c.Protocol == corev1.ProtocolUDP {
				if _, err := unix.Write(fd, []byte(text)); err != nil {
					return fmt.Errorf("%v: %w", c, err)
				}
			}
		}
		return nil
	})
}

func as4(a netip.Addr) (b [4]byte) {
	if a.Is4() {
		b = a.As4()
	}
	return b
}

// enforce brings the kernel of a machine to the plan of its node.
func enforce(t *testing.T, m *machine, node string, model *Model) {
	m.Do(t, func() error {
		for _, v6 := range []bool{false, true} {
			have, err := observe(v6)
			if err != nil {
				return err
			}
			p := NewPlan(model, node, v6)
			if err := program(p, Difference(p, have)); err != nil {
				return err
			}
			if have, err = observe(v6); err != nil {
				return err
			}
			if c := Difference(p, have); !c.Empty() {
				return fmt.Errorf("%s: programmed, and still there is a difference: %s", node, show(c))
			}
			if _, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, netlink.InetFamily(p.family()), everyFlow{}); err != nil {
				return err
			}
		}
		return nil
	})
}

// everyFlow matches all that the kernel remembers of connections.
type everyFlow struct{}

func (everyFlow) MatchConntrackFlow(*netlink.ConntrackFlow) bool { return true }

func (p *Plan) family() int {
	if p.V6 {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

func show(c Change) string {
	text, _ := json.Marshal(c)
	return string(text)
}

// rounds makes TestRealPackets longer.
var rounds = flag.Uint64("rounds", 6, "random sets of policies that are compared with packets")

// TestRealPackets is the truth table: for random policies on three machines of three pods each, every connection between two pods over TCP,
// UDP and SCTP, IPv4 and IPv6, arrives exactly if the simulator allows it. The rules of one round are changed into those of the next.
func TestRealPackets(t *testing.T) {
	const nodes = 3
	bed := newTestbed(t, testpolicy.Random{Rand: rand.New(rand.NewPCG(0, 4))}.Cluster(nodes), nodes)
	compared, denied := 0, 0
	for seed := range *rounds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			model := NewModel(testpolicy.Random{Rand: rand.New(rand.NewPCG(seed, 4))}.Cluster(nodes), nil, nil)
			for n, m := range bed {
				enforce(t, m, fmt.Sprint("n", n), model)
			}
			n, d := round(t, bed, model)
			compared, denied = compared+n, denied+d
		})
	}
	t.Logf("%d connections compared, %d of them denied", compared, denied)
	if compared < 2000 || denied < compared/10 || denied > compared*9/10 {
		t.Errorf("of %d connections %d are denied: the table says little", compared, denied)
	}
}

// round opens every connection and compares what arrives with what may.
func round(t *testing.T, bed []*machine, model *Model) (compared, denied int) {
	hears := &listener{heard: map[string]bool{}}
	from := map[netip.Addr][]Connection{}
	var all []Connection
	for _, c := range slices.Concat(connections(model, false), connections(model, true)) {
		if model.byAddr[c.From] != nil && model.byAddr[c.To] != nil && c.From != c.To {
			from[c.From] = append(from[c.From], c)
			all = append(all, c)
		}
	}
	for _, m := range bed {
		for a, in := range m.pods {
			hears.listen(t, in, a)
		}
	}
	for _, m := range bed {
		for a, in := range m.pods {
			dial(t, in, from[a], "")
		}
	}
	for _, c := range all {
		if v := model.Judge(c); v.Allowed {
			await(t, hears, c.String(), v.Explain)
		} else {
			denied++
		}
	}
	// A node's own packets to its pods always pass. When the last has come, none that was sent before it is still on its way.
	for _, m := range bed {
		for _, a := range slices.SortedFunc(maps.Keys(m.pods), netip.Addr.Compare) {
			last := Connection{To: a, Protocol: corev1.ProtocolUDP, Port: 79}
			dial(t, m.Space, []Connection{last}, "last ")
			gateway := addr(fmt.Sprintf("10.1.255.%d", slices.Index(bed, m)))
			if a.Is6() {
				gateway = addr(fmt.Sprintf("fd01::ffff:%d", slices.Index(bed, m)))
			}
			last.From = gateway
			await(t, hears, "last "+last.String(), func() string { return "a node reaches its pods" })
		}
	}
	for _, c := range all {
		if v := model.Judge(c); !v.Allowed && hears.has(c.String()) {
			t.Errorf("%v arrived: %s", c, v.Explain())
		}
	}
	return len(all), denied
}

// await waits for what must arrive.
func await(t *testing.T, l *listener, what string, why func() string) {
	t.Helper()
	eventually.Sees(t, eventually.Patience, what+" arrived", func() (bool, string) { return l.has(what), why() })
}

// TestRepair: what somebody else did to the table is mended, from a chain without its rules to no table at all.
func TestRepair(t *testing.T) {
	s := netspace.New(t)
	model := NewModel(testpolicy.Random{Rand: rand.New(rand.NewPCG(3, 4))}.Cluster(1), nil, nil)
	p := NewPlan(model, "n0", false)
	m := &machine{Space: s}
	enforce(t, m, "n0", model)
	for name, harm := range map[string]func(w *writer){
		"no table":          func(w *writer) { w.c.DelTable(w.t) },
		"a chain is empty":  func(w *writer) { w.c.FlushChain(w.named(slices.Sorted(maps.Keys(p.Chains))[0])) },
		"the hook is empty": func(w *writer) { w.c.FlushChain(w.named(hookName)) },
		"a map is empty":    func(w *writer) { w.c.FlushSet(w.set(ingressMap)) },
		"a foreign chain":   func(w *writer) { w.c.AddChain(w.named("somebody-elses")) },
	} {
		t.Run(name, func(t *testing.T) {
			s.Do(t, func() error {
				w, err := newWriter(p)
				if err != nil {
					return err
				}
				harm(w)
				if err := w.flush(); err != nil {
					return err
				}
				have, err := observe(false)
				if err != nil {
					return err
				}
				if Difference(p, have).Empty() {
					t.Error("the harm is not seen")
				}
				return nil
			})
			enforce(t, m, "n0", model)
		})
	}
}
