package proxy

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/ipvs"
)

// A server describes one virtual server of IPVS as it shall be. It is a pure function of a service and its claim to an address.
type server struct {
	sticky int32 // seconds
	ends   []netip.AddrPort
	dgram  bool // UDP: there are no connections whose end to wait for
}

// Marks of packets that go to the virtual server of that mark, whatever their address: one address can have only one list of endpoints,
// and where clients of this node may use more of them than others (split) those get a server of their own. The bit of masquerade may be
// in such a mark, and kube-proxy's for dropping is not.
const (
	marked   = 1 << 31
	markBits = 0x7fff3fff
)

// listMark is the mark of a list of the policy Cluster. The rule that sets it computes it from the list's number; see layout.toServer.
func listMark(id uint64) uint32 {
	return binary.NativeEndian.Uint32([]byte(bits(id)))&markBits | marked
}

// servers hands out the virtual servers for one claim.
func (s *service) servers(c *claim, add func(ipvs.Key, server)) {
	at := ipvs.Key{Addr: c.at.ip, Protocol: c.at.protocol, Port: c.at.port}
	v := server{sticky: c.way.sticky, dgram: c.at.protocol == unix.IPPROTO_UDP}
	ends := func(id uint64) server {
		v.ends = nil
		if i := slices.IndexFunc(s.lists, func(l list) bool { return l.id == id && l.v6 == c.at.ip.Is6() }); i >= 0 {
			v.ends = s.lists[i].ends
		}
		return v
	}
	switch c.way.kind {
	case pick:
		add(at, ends(c.list|uint64(c.way.local)))
	case split:
		if c.way.local != 0 {
			add(at, ends(c.list|1))
		}
		// Their packets have the bit of masquerade, or not.
		for _, m := range []uint32{listMark(c.list), listMark(c.list) | masquerade} {
			add(ipvs.MarkKey(m, c.at.ip.Is6()), ends(c.list))
		}
	}
}

// serve notes the virtual servers of a service, before or after it changed.
func (b *book) serve(s *service, more int) {
	if !b.here.ipvs {
		return
	}
	owns := b.owner(s)
	for i := range s.claims {
		c := &s.claims[i]
		if !owns(c) {
			continue
		}
		s.servers(c, func(k ipvs.Key, v server) {
			b.moved[k] = true
			if k.Mark != 0 {
				b.share(k, s, c, more)
				return
			}
			if more > 0 {
				b.servers[k] = v
			} else {
				delete(b.servers, k)
			}
		})
	}
}

// A sharer is a claim that leads to the server of a mark. All claims of one list do, and, by chance or by somebody's design, those of
// another list with the same mark: then the older service has it.
type sharer struct {
	s *service
	c *claim
}

func (b *book) share(k ipvs.Key, s *service, c *claim, more int) {
	if more > 0 {
		b.sharers[k] = append(b.sharers[k], sharer{s, c})
	} else {
		b.sharers[k] = slices.DeleteFunc(b.sharers[k], func(x sharer) bool { return x.s == s && x.c == c })
	}
	list := b.sharers[k]
	if len(list) == 0 {
		delete(b.sharers, k)
		delete(b.servers, k)
		return
	}
	first := slices.MinFunc(list, func(x, y sharer) int { return x.s.compare(y.s) })
	first.s.servers(first.c, func(n ipvs.Key, v server) {
		if n == k {
			b.servers[k] = v
		}
	})
}

// addresses are those that kube-ipvs0 shall have, of the wanted services.
func (b *book) addresses() map[netip.Addr]bool {
	all := map[netip.Addr]bool{}
	for e := range b.uses {
		if a, ok := netip.AddrFromSlice([]byte(e.key)); ok && e.set == virtual {
			all[a] = true
		}
	}
	return all
}
