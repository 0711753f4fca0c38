package podnetwork

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/podnetwork/wireguard"
)

// The encrypted network, of ModeWireGuard.
const (
	Secret     = wellknown.PodWireGuard // the link's name
	SecretPort = 51820                  // UDP

	secretOverhead4 = 60 // bytes of the headers of IP, UDP and WireGuard, and its seal
	secretOverhead6 = 80

	// keepalive, in seconds, keeps ways through firewalls open, and tells who does not answer before a pod needs it.
	keepalive = 25
)

const (
	patience = 20 * time.Second  // a peer should answer by then
	stale    = 200 * time.Second // keys are agreed on anew every two minutes, and are void after three
)

// A secret is the encrypted link and what is on it.
type secret struct {
	public wireguard.Key
	mtu    int
	addrs  map[netip.Prefix]bool
	peers  map[wireguard.Key]wireguard.Peer
	names  map[wireguard.Key]string // of the Nodes
	mute   []string                 // Nodes that can't be peers, and why
}

// planSecret is plan with ModeWireGuard: every range of another node leads into the link, also that of a node that tells no key yet, for
// which the kernel has no way then. Nothing goes another way.
func planSecret(c census, g ground, want state, v6 bool) (state, []string) {
	notes := slices.Clone(c.notes)
	s := &secret{public: g.public, addrs: map[netip.Prefix]bool{}, peers: map[wireguard.Key]wireguard.Peer{},
		names: map[wireguard.Key]string{}}
	ends := []netip.Addr{}
	for _, m := range c.peers {
		for _, p := range m.ranges {
			if g.foreign[p] {
				notes = append(notes,
					fmt.Sprintf("there is a route to %s, the pods of node %s, that is not kloop's: it stays, and what it leads "+
						"past %s is dropped, for it is not encrypted", p, m.name, Secret))
				continue
			}
			r := through(p, c.own)
			want.routes[p] = route{link: Secret, src: r.src}
		}
		key, at, err := m.secret(v6)
		if other := s.names[key]; err == nil && (other != "" || key == g.public) {
			err = fmt.Errorf("its key is that of node %s: remove the file with the key on one of them, and restart its agent",
				orOwn(other, c))
		}
		if err != nil {
			s.mute = append(s.mute, fmt.Sprintf("%s: %v", m.name, err))
			continue
		}
		peer := wireguard.Peer{Endpoint: at, Allowed: slices.Clone(m.ranges), Keepalive: keepalive}
		coldsort.Func(peer.Allowed, netip.Prefix.Compare)
		s.peers[key], s.names[key] = peer, m.name
		ends = append(ends, at.Addr())
	}
	want.mtu = narrowest(g, ends) - secretOverhead(ends, v6)
	want.mtu = max(want.mtu, leastMTU)
	if len(c.peers) > 0 {
		for _, p := range c.own.ranges {
			s.addrs[netip.PrefixFrom(p.Addr(), p.Addr().BitLen())] = true
		}
		s.mtu, want.secret = want.mtu, s
	}
	return want, notes
}

func orOwn(name string, c census) string {
	if name == "" {
		return c.own.name
	}
	return name
}

func secretOverhead(ends []netip.Addr, v6 bool) int {
	if v6 || slices.ContainsFunc(ends, netip.Addr.Is6) {
		return secretOverhead6
	}
	return secretOverhead4
}

// secret says by which key the machine is reached, and where.
func (m machine) secret(v6 bool) (key wireguard.Key, at netip.AddrPort, err error) {
	if m.key == "" {
		return key, at, fmt.Errorf("its Node has no annotation %s: its agent does not run, or its network.mode is not %s",
			wellknown.WireGuardKey,
			ModeWireGuard)
	}
	if key, err = wireguard.ParseKey(m.key); err != nil {
		return key, at, fmt.Errorf("annotation %s: %w", wellknown.WireGuardKey, err)
	}
	if m.endpoint != "" {
		if at, err = netip.ParseAddrPort(m.endpoint); err != nil {
			err = fmt.Errorf("annotation %s: %.60q is not ADDRESS:PORT", wellknown.WireGuardEndpoint, m.endpoint)
		}
		return key, netip.AddrPortFrom(at.Addr().Unmap(), at.Port()), err
	}
	addr, ok := m.address(v6)
	if !ok {
		return key, at, fmt.Errorf("its Node tells no address of the family of this node's")
	}
	return key, netip.AddrPortFrom(addr, SecretPort), nil
}

// ask says when to look again at peers that don't answer; 0: they all do.
func (l *loop) ask() (wait time.Duration) {
	for _, since := range l.waiting {
		if time.Since(since) < patience {
			return retry
		}
		wait = patience
	}
	return wait
}

// listen finds out which peers don't answer, as the kernel had it before the pass.
func (l *loop) listen(want state) {
	now := time.Now()
	var list []string
	if s := want.secret; s != nil {
		list = append(list, s.mute...)
		for key, name := range s.names {
			if now.Sub(l.kernel.met[key]) < stale {
				delete(l.waiting, key)
				continue
			}
			if _, known := l.waiting[key]; !known {
				l.waiting[key] = now
			}
			if now.Sub(l.waiting[key]) >= patience {
				at := s.peers[key].Endpoint
				list = append(list, fmt.Sprintf("%s: no answer from %s: the machine is off, or a firewall drops UDP there or back",
					name, at))
			}
		}
	}
	for key := range l.waiting {
		if want.secret == nil || want.secret.names[key] == "" {
			delete(l.waiting, key)
		}
	}
	slices.Sort(list)
	const most = 3 // names of a message
	if more := len(list) - most; more > 0 {
		list = append(list[:most], fmt.Sprintf("and %d more", more))
	}
	l.silent = strings.Join(list, "; ")
}
