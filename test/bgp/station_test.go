package bgp

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/rpc"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	packet "github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/server"
	"github.com/vishvananda/netlink"

	"github.com/kloop-dev/kloop/loadbalancer/bgp"
	"github.com/kloop-dev/kloop/test/need"
)

// TestMain runs the tests, or what they start: this program again, as a station.
func TestMain(m *testing.M) {
	if os.Getenv("KLOOP_STATION") == "" {
		os.Exit(m.Run())
	}
	s := rpc.NewServer()
	if err := s.Register(&Station{states: map[string]bgp.State{}}); err != nil {
		panic(err)
	}
	s.ServeConn(stdio{os.Stdin, os.Stdout})
}

type stdio struct {
	io.Reader
	io.WriteCloser
}

// A Station is a process in a network namespace: a router with GoBGP, or a node with kloop's speaker. Its methods are called from the test.
type Station struct {
	router  *server.BgpServer
	speaker *bgp.Speaker
	mu      sync.Mutex
	states  map[string]bgp.State
}

// A Wire is one end of a pair of links.
type Wire struct {
	Name, Far string
	Pid       int // of the station that has the far end
}

// Wire makes a pair of links to another station.
func (*Station) Wire(w Wire, _ *int) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = w.Name
	return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: w.Far, PeerNamespace: netlink.NsPid(w.Pid)})
}

// Up gives a link its addresses, LINK CIDR…, and sets it up.
func (*Station) Up(words []string, _ *int) error {
	l, err := netlink.LinkByName(words[0])
	if err != nil {
		return err
	}
	for _, cidr := range words[1:] {
		a, err := netlink.ParseAddr(cidr)
		if err != nil {
			return err
		}
		a.Flags = syscall.IFA_F_NODAD
		if err := netlink.AddrAdd(l, a); err != nil {
			return err
		}
	}
	return netlink.LinkSetUp(l)
}

// Route adds a route, CIDR VIA.
func (*Station) Route(words []string, _ *int) error {
	_, dst, err := net.ParseCIDR(words[0])
	if err != nil {
		return err
	}
	return netlink.RouteAdd(&netlink.Route{Dst: dst, Gw: net.ParseIP(words[1])})
}

// Forward makes the station pass packets on.
func (*Station) Forward(_ int, _ *int) error {
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)
}

// A Neighbor is a peer of GoBGP's.
type Neighbor struct {
	Address, Password string
	AS                uint32
	MultiHop          bool
}

// A Routing is GoBGP's configuration.
type Routing struct {
	AS        uint32
	ID        string
	Neighbors []Neighbor
}

// Start starts GoBGP.
func (s *Station) Start(r Routing, _ *int) error {
	ctx := context.Background()
	s.router = server.NewBgpServer()
	go s.router.Serve()
	if err := s.router.StartBgp(ctx, &api.StartBgpRequest{Global: &api.Global{Asn: r.AS, RouterId: r.ID, ListenPort: 179}}); err != nil {
		return err
	}
	for _, n := range r.Neighbors {
		p := &api.Peer{Conf: &api.PeerConf{NeighborAddress: n.Address, PeerAsn: n.AS, AuthPassword: n.Password},
			Transport: &api.Transport{PassiveMode: true}, GracefulRestart: &api.GracefulRestart{Enabled: true, RestartTime: 60, HelperOnly: true}}
		if n.MultiHop {
			p.EbgpMultihop = &api.EbgpMultihop{Enabled: true, MultihopTtl: 5}
		}
		for _, afi := range []api.Family_Afi{api.Family_AFI_IP, api.Family_AFI_IP6} {
			p.AfiSafis = append(p.AfiSafis, &api.AfiSafi{Config: &api.AfiSafiConfig{Enabled: true,
				Family: &api.Family{Afi: afi, Safi: api.Family_SAFI_UNICAST}},
				MpGracefulRestart: &api.MpGracefulRestart{Config: &api.MpGracefulRestartConfig{Enabled: true}}})
		}
		if err := s.router.AddPeer(ctx, &api.AddPeerRequest{Peer: p}); err != nil {
			return err
		}
	}
	return nil
}

// Down stops GoBGP.
func (s *Station) Down(_ int, _ *int) error {
	return s.router.StopBgp(context.Background(), &api.StopBgpRequest{})
}

// RIB lists the routes that GoBGP has: one line for each, PREFIX and attributes. Stale ones have a star.
func (s *Station) RIB(_ int, out *map[string]string) error {
	*out = map[string]string{}
	for _, f := range []packet.Family{packet.RF_IPv4_UC, packet.RF_IPv6_UC} {
		err := s.router.ListPath(apiutil.ListPathRequest{TableType: api.TableType_TABLE_TYPE_GLOBAL, Family: f},
			func(prefix packet.NLRI, paths []*apiutil.Path) {
				var all []string
				for _, p := range paths {
					all = append(all, describe(p))
				}
				(*out)[prefix.String()] = strings.Join(all, " | ")
			})
		if err != nil {
			return err
		}
	}
	return nil
}

func describe(p *apiutil.Path) string {
	var words []string
	for _, a := range p.Attrs {
		switch a.(type) {
		case *packet.PathAttributeOrigin:
		case *packet.PathAttributeMpReachNLRI:
			words = append(words, fmt.Sprintf("{Nexthop: %s}", a.(*packet.PathAttributeMpReachNLRI).Nexthop))
		default:
			words = append(words, a.String())
		}
	}
	if p.Stale {
		words = append(words, "*")
	}
	return strings.Join(words, " ")
}

// A Saying has what a speaker says to one peer.
type Saying struct {
	Peer   bgp.Peer
	Routes []bgp.Route
}

// A Speech has what it says to all.
type Speech struct {
	Own bgp.Own
	To  []Saying
}

// Speak starts the speaker, or tells it something else.
func (s *Station) Speak(sp Speech, _ *int) error {
	if s.speaker == nil {
		s.speaker = bgp.NewSpeaker(sp.Own, func(p bgp.Peer, st bgp.State) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.states[p.Name] = st
		})
	}
	want := map[bgp.Peer][]bgp.Route{}
	for _, to := range sp.To {
		want[to.Peer] = to.Routes
	}
	s.speaker.Set(want)
	return nil
}

// States are those that the speaker told last.
func (s *Station) States(_ int, out *map[string]bgp.State) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	*out = map[string]bgp.State{}
	for name, st := range s.states {
		(*out)[name] = st
	}
	return nil
}

// Hush closes the speaker.
func (s *Station) Hush(_ int, _ *int) error {
	s.speaker.Close()
	s.speaker = nil
	return nil
}

// A remote is a station, seen from the test.
type remote struct {
	t   *testing.T
	cmd *exec.Cmd
	rpc *rpc.Client
}

// newStation starts one, in a namespace of its own or in that of another.
func newStation(t *testing.T, in *remote) *remote {
	t.Helper()
	need.BeRoot(t)
	cmd := exec.Command(os.Args[0])
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if in != nil {
		cmd = exec.Command("nsenter", "-t", fmt.Sprint(in.cmd.Process.Pid), "-n", os.Args[0])
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	}
	cmd.Env, cmd.Stderr = append(os.Environ(), "KLOOP_STATION=1"), os.Stderr
	w, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	need.Have(t, need.Root, cmd.Start())
	s := &remote{t, cmd, rpc.NewClient(stdio{r, w})}
	t.Cleanup(s.kill)
	return s
}

// kill ends the process without a word, as a crash does.
func (s *remote) kill() {
	if s.rpc != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.rpc.Close()
		s.rpc = nil
	}
}

func call[In, Out any](s *remote, method string, in In, _ Out) (out Out) {
	s.t.Helper()
	if err := s.rpc.Call("Station."+method, in, &out); err != nil {
		s.t.Fatalf("%s: %v", method, err)
	}
	return out
}

func (s *remote) do(method string, in any) {
	s.t.Helper()
	call(s, method, in, 0)
}

func (s *remote) rib() map[string]string { s.t.Helper(); return call(s, "RIB", 0, map[string]string{}) }

func (s *remote) states() map[string]bgp.State {
	s.t.Helper()
	return call(s, "States", 0, map[string]bgp.State{})
}

func (s *remote) speak(own bgp.Own, to ...Saying) { s.t.Helper(); s.do("Speak", Speech{own, to}) }

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }
