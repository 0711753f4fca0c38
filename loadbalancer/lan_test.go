package loadbalancer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/admission/plugins"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/internal/eventually"
	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/test/need"
)

// A station is a machine: a network namespace, and a thread in it.
type station struct {
	t   *testing.T
	do  chan func()
	ns  int
	mac string
}

func newStation(t *testing.T) *station {
	t.Helper()
	s := &station{t: t, do: make(chan func())}
	up := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine, and the namespace with its last user
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			s.ns, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}
		up <- err
		for f := range s.do {
			f()
		}
	}()
	need.Have(t, need.Root, <-up)
	t.Cleanup(func() { close(s.do); unix.Close(s.ns) })
	return s
}

func (s *station) run(f func() error) {
	s.t.Helper()
	done := make(chan error)
	s.do <- func() { done <- f() }
	if err := <-done; err != nil {
		s.t.Fatal(err)
	}
}

// A lan is machines on one bridge, with an API server that all can reach.
type lan struct {
	t      *testing.T
	local  *client.Local
	bridge *station
	nodes  []*member
	asker  *station
}

// A member is a node of the lan with its announcer.
type member struct {
	*station
	name, ip string
	api      *shaky
	stop     context.CancelFunc
	ended    chan struct{}
}

// shaky is a client whose API can be out of reach: writes fail, and the feed stands still.
type shaky struct {
	client.Client
	cut atomic.Bool
}

var errCut = errors.New("the API is out of reach")

func (s *shaky) Update(ctx context.Context, k resource.Kind, obj resource.Object, sub string) (resource.Object, error) {
	if s.cut.Load() {
		return nil, errCut
	}
	return s.Client.Update(ctx, k, obj, sub)
}

func (s *shaky) Get(ctx context.Context, k resource.Kind, ns, name string) (resource.Object, error) {
	if s.cut.Load() {
		return nil, errCut
	}
	return s.Client.Get(ctx, k, ns, name)
}

func (s *shaky) Feed(list ...resource.Kind) client.Feed { return &shakyFeed{s, s.Client.Feed(list...)} }

type shakyFeed struct {
	s *shaky
	client.Feed
}

func (f *shakyFeed) Next(ctx context.Context) (client.Batch, error) {
	b, err := f.Feed.Next(ctx)
	for f.s.cut.Load() && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
	return b, err
}

// newAPI is an API server in this process.
func newAPI(t *testing.T) *client.Local {
	t.Helper()
	c := testcluster.Start(t, func(c *testcluster.Config) { c.Admission = plugins.Default(admission.Config{}) }).Local
	if _, err := c.Create(t.Context(), kinds.Namespaces,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: wellknown.AnnounceSpace}}); err != nil {
		t.Fatal(err)
	}
	return c
}

// newLAN makes nodes n1, n2… at 192.168.77.11…, and one more machine that asks.
func newLAN(t *testing.T, nodes int) *lan {
	t.Helper()
	need.BeRoot(t)
	l := &lan{t: t, local: newAPI(t), bridge: newStation(t), asker: newStation(t)}
	l.bridge.run(func() error {
		br := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}
		return errors.Join(netlink.LinkAdd(br), netlink.LinkSetUp(br))
	})
	l.plug(l.asker, "asker", "192.168.77.9")
	for i := range nodes {
		m := &member{station: newStation(t), name: fmt.Sprint("n", i+1), ip: fmt.Sprint("192.168.77.", 11+i)}
		l.plug(m.station, m.name, m.ip)
		l.nodes = append(l.nodes, m)
	}
	l.asker.plugged()
	for _, m := range l.nodes {
		m.plugged()
		l.start(m)
	}
	return l
}

// plug connects a station to the bridge; its interface is eth0.
func (l *lan) plug(s *station, name, ip string) {
	l.t.Helper()
	l.bridge.run(func() error {
		br, err := netlink.LinkByName("br0")
		if err != nil {
			return err
		}
		v := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "v-" + name, MasterIndex: br.Attrs().Index}, PeerName: "eth0",
			PeerNamespace: netlink.NsFd(s.ns)}
		return errors.Join(netlink.LinkAdd(v), netlink.LinkSetUp(v))
	})
	s.run(func() error {
		eth, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		s.mac = eth.Attrs().HardwareAddr.String()
		for _, sysctl := range []string{"accept_dad"} {
			_ = os.WriteFile("/proc/sys/net/ipv6/conf/eth0/"+sysctl, []byte("0"), 0o600)
		}
		v4, err4 := netlink.ParseAddr(ip + "/24")
		last := ip[strings.LastIndex(ip, ".")+1:]
		v6, err6 := netlink.ParseAddr("fd77::" + last + "/64")
		if err := errors.Join(err4, err6); err != nil {
			return err
		}
		v6.Flags = unix.IFA_F_NODAD
		return errors.Join(netlink.AddrAdd(eth, v4), netlink.AddrAdd(eth, v6), netlink.LinkSetUp(eth))
	})
}

// plugged waits until the kernel knows that the cable is in.
func (s *station) plugged() {
	s.t.Helper()
	eventually.True(s.t, "the interface is up", func() (up bool) {
		s.run(func() error {
			eth, err := netlink.LinkByName("eth0")
			up = err == nil && eth.Attrs().OperState == netlink.OperUp
			return err
		})
		return up
	})
}

// link brings a node's cable up or down, at the bridge.
func (l *lan) link(name string, up bool) {
	l.bridge.run(func() error {
		v, err := netlink.LinkByName("v-" + name)
		if err != nil {
			return err
		}
		if up {
			return netlink.LinkSetUp(v)
		}
		return netlink.LinkSetDown(v)
	})
}

// start runs the announcer of a node.
func (l *lan) start(m *member) {
	ctx, stop := context.WithCancel(context.Background())
	m.api, m.stop, m.ended = &shaky{Client: l.local}, stop, make(chan struct{})
	go func() {
		defer close(m.ended)
		runtime.LockOSThread() // the thread is the namespace's from here on
		if err := unix.Setns(m.ns, unix.CLONE_NEWNET); err != nil {
			l.t.Error(err)
			return
		}
		log := slog.New(slog.DiscardHandler)
		if testing.Verbose() {
			log = slog.New(slog.NewTextHandler(l.t.Output(), nil)).With("node", m.name)
		}
		if err := Announce(ctx, Config{Client: m.api, Node: m.name, Address: netip.MustParseAddr(m.ip), Log: log}); err != nil {
			l.t.Errorf("%s: %v", m.name, err)
		}
	}()
	l.t.Cleanup(func() { stop(); <-m.ended })
}

// kill ends a node's announcer as a lost machine ends: it lets go of nothing.
func (m *member) kill() {
	m.api.cut.Store(true)
	m.stop()
	<-m.ended
}

// lease writes the Lease of an address, as the controller does, with these nodes as candidates.
func (l *lan) lease(addr string, nodes ...*member) {
	l.t.Helper()
	candidates := []wellknown.Candidate{}
	for _, m := range nodes {
		candidates = append(candidates, wellknown.Candidate{Node: m.name, Address: m.ip})
	}
	text, err := json.Marshal(candidates)
	if err != nil {
		l.t.Fatal(err)
	}
	name := "l2-" + strings.ReplaceAll(netip.MustParseAddr(addr).StringExpanded(), ":", "-")
	for range 20 {
		cur := resource.Get(l.local.Read(), kinds.Leases, wellknown.AnnounceSpace, name)
		if cur == nil {
			cur = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: wellknown.AnnounceSpace, Name: name,
				Labels: map[string]string{wellknown.AnnounceLabel: "layer2"}}}
		}
		next := resource.Clone(cur)
		next.Annotations = map[string]string{wellknown.AnnouncedAddress: addr, wellknown.AnnouncedCandidates: string(text)}
		if cur.ResourceVersion == "" {
			_, err = l.local.Create(l.t.Context(), kinds.Leases, next)
		} else {
			_, err = l.local.Update(l.t.Context(), kinds.Leases, next, "")
		}
		if err == nil {
			return
		}
	}
	l.t.Fatal(err)
}

// A recording holds what the asker has seen of an address: who answered or announced, and when.
type recording struct {
	mu   sync.Mutex
	seen []sight
}

type sight struct {
	at      time.Time
	mac     string
	unasked bool
}

// record asks for an address every 5 ms until the test ends, and writes down all ARP packets that claim it.
func (l *lan) record(addr string) *recording {
	l.t.Helper()
	r := &recording{}
	var s *socket
	var index int
	var own arpPacket
	l.asker.run(func() (err error) {
		if s, err = openSocket(unix.ETH_P_ARP); err != nil {
			return err
		}
		eth, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		index = eth.Attrs().Index
		own = arpPacket{op: arpRequest, sender: netip.MustParseAddr("192.168.77.9"), target: netip.MustParseAddr(addr)}
		copy(own.senderMAC[:], eth.Attrs().HardwareAddr)
		return nil
	})
	var wg sync.WaitGroup
	stop := make(chan struct{})
	l.t.Cleanup(func() { close(stop); s.close(); wg.Wait() })
	wg.Go(func() {
		buf := make([]byte, 256)
		for {
			n, _, err := s.read(buf)
			if err != nil {
				return
			}
			if p, ok := parseARP(buf[:n]); ok && p.sender == own.target {
				r.mu.Lock()
				r.seen = append(r.seen, sight{time.Now(), net.HardwareAddr(p.senderMAC[:]).String(), p.target == p.sender})
				r.mu.Unlock()
			}
		}
	})
	wg.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				_ = s.send(index, broadcast, own.bytes(nil))
			}
		}
	})
	return r
}

func (r *recording) all() []sight {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]sight(nil), r.seen...)
}

// turns are the machines that claimed the address, one after the other. Two at once would show as many turns.
func (r *recording) turns() (list []sight) {
	for _, s := range r.all() {
		if len(list) == 0 || list[len(list)-1].mac != s.mac {
			list = append(list, s)
		}
	}
	return list
}
