// Package bgp speaks BGP-4 to routers (RFC 4271), as far as an announcer of addresses needs it: it opens sessions, sends routes and
// withdraws them. It takes no routes, and it never listens: so two connections with one peer never collide on this side.
//
// It has 4-octet AS numbers (RFC 6793), IPv6 and IPv4 over one session (RFC 4760), communities (RFC 1997, RFC 8092), MD5 signatures
// (RFC 2385), route refresh (RFC 2918) and graceful restart as the one that restarts (RFC 4724). A message that makes no sense ends its
// session, with the notification that the standard has for it, and nothing else.
package bgp

import (
	"cmp"
	"net/netip"
	"time"
)

// A Peer is a router and how to speak to it. Peers that differ in anything are different sessions.
type Peer struct {
	Name     string // for people
	Address  netip.Addr
	Port     uint16 // 0: 179
	MyAS     uint32
	PeerAS   uint32     // 0: any but ours, or with Internal ours
	Internal bool       // says what a PeerAS of 0 means
	Source   netip.Addr // of the connection; zero: the kernel chooses
	RouterID netip.Addr // IPv4; zero: the speaker's
	Password string     // of MD5 signatures; "": none
	MultiHop bool       // routers may be between, though the peer is of another AS
	Graceful bool       // the peer keeps our routes while this process restarts
	Both     bool       // routes of both families; else those of the session's own
	// Hold is the silence after which a session is over, proposed to the peer; 0: 90 s; negative: forever. Less than 3 s is not allowed.
	Hold      time.Duration
	Keepalive time.Duration // between two signs of life; 0: a third of the hold time, which is also the most
	Connect   time.Duration // between two attempts to connect; 0: growing from 1 to 30 s
}

func (p Peer) target() netip.AddrPort { return netip.AddrPortFrom(p.Address, cmp.Or(p.Port, 179)) }

func (p Peer) hold() time.Duration { return max(0, cmp.Or(p.Hold, 90*time.Second)) }

// internal says, before the peer has said its AS, whether that is ours.
func (p Peer) internal() bool { return p.PeerAS == p.MyAS || p.PeerAS == 0 && p.Internal }

// welcome says whether a peer may be of this AS.
func (p Peer) welcome(as uint32) bool {
	switch {
	case p.PeerAS != 0:
		return as == p.PeerAS
	case p.Internal:
		return as == p.MyAS
	}
	return as != p.MyAS
}

// families are those whose routes are sent, by AFI.
func (p Peer) families() []uint16 {
	switch {
	case p.Both:
		return []uint16{afi4, afi6}
	case p.Address.Is4():
		return []uint16{afi4}
	}
	return []uint16{afi6}
}

// A Route is a range of addresses that is reached by way of this machine.
type Route struct {
	Prefix      netip.Prefix
	LocalPref   uint32      // to peers of the own AS only; 0: 100
	Communities []uint32    // in order; MostCommunities of them are sent
	Large       [][3]uint32 // the same for large ones
}

// A State says how a session is.
type State struct {
	Established bool
	Trouble     string // why it is not; "" at first: it has just begun
	Routes      int    // that the peer has been sent
}
