package podnetwork

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/podnetwork/wireguard"
)

// takeKey reads the private key of this node, or makes it. It stays here.
func (k *kernel) takeKey(file string) (public wireguard.Key, err error) {
	if k.private, err = wireguard.Keep(file); err != nil {
		return public, err
	}
	return k.private.Public()
}

// observeSecret reads the encrypted link; nil: there is none. met has when each peer was heard of.
func (k *kernel) observeSecret() (*secret, error) {
	k.met = map[wireguard.Key]time.Time{}
	l, err := k.link(Secret)
	if err != nil {
		return nil, fmt.Errorf("look for the link %s: %w", Secret, err)
	}
	if _, ok := l.(*netlink.Wireguard); !ok {
		return nil, nil
	}
	if k.wg == nil {
		if k.wg, err = wireguard.Open(); err != nil {
			return nil, err
		}
	}
	d, err := k.wg.Device(Secret)
	if err != nil {
		return nil, err
	}
	s := &secret{mtu: l.Attrs().MTU, peers: d.Peers}
	if d.Port == SecretPort { // else it is configured anew
		s.public = d.Public
	}
	for key, p := range d.Peers {
		k.met[key] = p.Handshake
	}
	s.addrs, err = k.addresses(l)
	return s, err
}

// bringSecret makes the encrypted link, or mends it. Where it can't be made the routes that lead into it go: nothing leads elsewhere, for
// the rules of masquerade.go drop what is not encrypted.
func (k *kernel) bringSecret(want state, have *state) (netlink.Link, error) {
	if want.secret == nil {
		return nil, nil
	}
	if have.secret == nil {
		if err := k.drop(Secret); err != nil {
			return nil, err
		}
		w := &netlink.Wireguard{LinkAttrs: netlink.NewLinkAttrs()}
		w.Name, w.MTU = Secret, want.secret.mtu
		if err := k.h.LinkAdd(w); errors.Is(err, unix.EOPNOTSUPP) {
			return nil, fmt.Errorf("network.mode is %s, and this machine's kernel has no WireGuard: modprobe wireguard; a kernel of Linux 5.6 or "+
				"newer has the module. Until then its pods reach none of other nodes, for nothing leaves unencrypted", ModeWireGuard)
		} else if err != nil {
			return nil, fmt.Errorf("make the WireGuard link %s: %w", Secret, err)
		}
		maps.DeleteFunc(have.routes, func(_ netip.Prefix, r route) bool { return r.link == Secret || r.link == "" })
		made, err := k.observeSecret()
		if err != nil {
			return nil, err
		}
		have.secret = made
	}
	l, err := k.h.LinkByName(Secret)
	if err != nil {
		return nil, fmt.Errorf("find the link %s: %w", Secret, err)
	}
	if have.secret.public != want.secret.public {
		err = k.wg.Configure(Secret, k.private, SecretPort)
	}
	if l.Attrs().MTU != want.secret.mtu {
		err = errors.Join(err, k.h.LinkSetMTU(l, want.secret.mtu))
	}
	if l.Attrs().Flags&net.FlagUp == 0 {
		err = errors.Join(err, quiet(Secret), k.h.LinkSetUp(l))
	}
	if errors.Is(err, unix.EADDRINUSE) {
		err = fmt.Errorf("another program has UDP port %d: %w", SecretPort, err)
	}
	if err != nil {
		return nil, fmt.Errorf("set up the link %s: %w", Secret, err)
	}
	return l, nil
}

// fillSecret puts onto the link what is missing. A peer that was heard of lately stays where it was heard, unless its Node says another
// place than before.
func (k *kernel) fillSecret(on netlink.Link, want, have state, do func(any, error)) {
	for p := range want.secret.addrs {
		if !have.secret.addrs[p] {
			do(p, k.h.AddrReplace(on, &netlink.Addr{IPNet: ipNet(p), Flags: unix.IFA_F_NODAD, Scope: unix.RT_SCOPE_UNIVERSE}))
		}
	}
	for key, p := range want.secret.peers {
		h, there := have.secret.peers[key]
		told := k.told[key]
		k.told[key] = p.Endpoint
		if there && time.Since(h.Handshake) < stale && (told == p.Endpoint || !told.IsValid()) {
			p.Endpoint = h.Endpoint
		}
		if !there || !p.Same(h) {
			do(want.secret.names[key], k.wg.Put(Secret, key, p))
		}
	}
	maps.DeleteFunc(k.told, func(key wireguard.Key, _ netip.AddrPort) bool { return want.secret.names[key] == "" })
}

// thinSecret takes from the link what is too much.
func (k *kernel) thinSecret(on netlink.Link, want, have state, do func(any, error)) {
	for key := range have.secret.peers {
		if want.secret.names[key] == "" {
			do(key, k.wg.Remove(Secret, key))
		}
	}
	for p := range have.secret.addrs {
		if !want.secret.addrs[p] {
			do(p, k.h.AddrDel(on, &netlink.Addr{IPNet: ipNet(p)}))
		}
	}
}
