package loadbalancer

import (
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A responder answers ARP and NDP for addresses that stand on no interface. One goroutine for each protocol reads; the table that it
// goes by is replaced as a whole.
type responder struct {
	arp, ndp *socket // ndp is nil where the kernel has no IPv6
	groups   *groups
	table    atomic.Pointer[table]
	beat     atomic.Int64 // when the loop last ran, since begin; older than frozen: no answers
	begin    time.Time
	rivals   chan rival
	counts   struct{ requests, answers, announcements atomic.Int64 }
}

// A table says what is answered where.
type table struct {
	answers map[netip.Addr][]link
	watched map[netip.Addr]bool // addresses for which anybody else's answer is of interest
	own     map[string]bool     // hardware addresses of this machine
}

// A rival is somebody else who answers for an address of ours.
type rival struct {
	addr netip.Addr
	mac  string
}

func newResponder() (*responder, error) {
	r := &responder{begin: time.Now(), rivals: make(chan rival, 64)}
	r.table.Store(&table{})
	var err error
	if r.arp, err = openSocket(unix.ETH_P_ARP); err != nil {
		return nil, err
	}
	if r.groups, err = newGroups(); err != nil {
		return r, nil // no IPv6
	}
	if r.ndp, err = openSocket(unix.ETH_P_IPV6); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *responder) close() {
	r.arp.close()
	if r.ndp != nil {
		r.ndp.close()
	}
	if r.groups != nil {
		r.groups.close()
	}
}

// alive notes that the loop runs.
func (r *responder) alive() { r.beat.Store(int64(time.Since(r.begin))) }

// awake says that the loop ran lately: a process that stood still may have lost its addresses without knowing.
func (r *responder) awake() bool { return time.Since(r.begin)-time.Duration(r.beat.Load()) < frozen }

func (r *responder) serveARP() {
	buf := make([]byte, 256)
	for {
		n, index, err := r.arp.read(buf)
		if err != nil {
			return
		}
		if p, ok := parseARP(buf[:n]); ok {
			r.takeARP(p, index)
		}
	}
}

func (r *responder) takeARP(p arpPacket, index int) {
	t := r.table.Load()
	if t.watched[p.sender] && !t.own[string(p.senderMAC[:])] {
		r.meet(p.sender, net.HardwareAddr(p.senderMAC[:]).String())
	}
	at := slices.IndexFunc(t.answers[p.target], func(l link) bool { return l.index == index })
	if p.op != arpRequest || at < 0 || p.sender == p.target || t.own[string(p.senderMAC[:])] {
		return
	}
	r.counts.requests.Add(1)
	if !r.awake() {
		return
	}
	reply := arpPacket{op: arpReply, sender: p.target, target: p.sender}
	copy(reply.senderMAC[:], t.answers[p.target][at].mac)
	if r.arp.send(index, p.senderMAC[:], reply.bytes(p.senderMAC[:])) == nil {
		r.counts.answers.Add(1)
	}
}

func (r *responder) serveNDP() {
	buf := make([]byte, 2048)
	for {
		n, index, err := r.ndp.read(buf)
		if err != nil {
			return
		}
		if p, ok := parseNDP(buf[:n]); ok {
			r.takeNDP(p, index)
		}
	}
}

func (r *responder) takeNDP(p ndpPacket, index int) {
	t := r.table.Load()
	if p.kind == advertisement {
		if t.watched[p.target] && !t.own[string(p.mac)] {
			r.meet(p.target, p.mac.String())
		}
		return
	}
	at := slices.IndexFunc(t.answers[p.target], func(l link) bool { return l.index == index })
	if at < 0 || t.own[string(p.mac)] {
		return
	}
	r.counts.requests.Add(1)
	if !r.awake() {
		return
	}
	a := ndpPacket{kind: advertisement, flags: flagSolicited, from: p.target, to: p.from, target: p.target, mac: t.answers[p.target][at].mac}
	to := p.mac
	switch {
	case p.from.IsUnspecified(): // somebody asks whether the address is free
		a.flags, a.to, to = flagOverride, allNodes, multicastMAC(allNodes)
	case to == nil:
		return // where to send it only the kernel could find out
	}
	if r.ndp.send(index, to, a.bytes()) == nil {
		r.counts.answers.Add(1)
	}
}

// meet tells the loop of a rival; what it does not take up in time will answer again.
func (r *responder) meet(addr netip.Addr, mac string) {
	select {
	case r.rivals <- rival{addr, mac}:
	default:
	}
}

// probe asks whether anybody has the address.
func (r *responder) probe(addr netip.Addr, links []link) {
	for _, l := range links {
		if addr.Is4() {
			p := arpPacket{op: arpRequest, sender: netip.IPv4Unspecified(), target: addr}
			copy(p.senderMAC[:], l.mac)
			_ = r.arp.send(l.index, broadcast, p.bytes(nil)) // an interface that fails has its own trouble
		} else if r.ndp != nil {
			group := solicited(addr)
			p := ndpPacket{kind: solicitation, from: netip.IPv6Unspecified(), to: group, target: addr}
			_ = r.ndp.send(l.index, multicastMAC(group), p.bytes())
		}
	}
}

var broadcast = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// announce tells everybody, unasked, that the address is here: as request and as reply, since some take up only one of them.
func (r *responder) announce(addr netip.Addr, links []link) {
	for _, l := range links {
		r.counts.announcements.Add(1)
		if addr.Is4() {
			for _, op := range []uint16{arpRequest, arpReply} {
				p := arpPacket{op: op, sender: addr, target: addr}
				copy(p.senderMAC[:], l.mac)
				_ = r.arp.send(l.index, broadcast, p.bytes(broadcast))
			}
		} else if r.ndp != nil {
			p := ndpPacket{kind: advertisement, flags: flagOverride, from: addr, to: allNodes, target: addr, mac: l.mac}
			_ = r.ndp.send(l.index, multicastMAC(allNodes), p.bytes())
		}
	}
}
