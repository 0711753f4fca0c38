package bgp

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/kloop-dev/kloop/internal/coldsort"
)

// Codes of attributes.
const (
	attrOrigin      = 1
	attrASPath      = 2
	attrNextHop     = 3
	attrLocalPref   = 5
	attrCommunities = 8
	attrReach       = 14
	attrUnreach     = 15
	attrAS4Path     = 17
	attrLarge       = 32
)

// Flags of attributes.
const (
	wellKnown  = 0x40 // and so transitive
	optional   = 0x80
	transitive = 0x40
	long       = 0x10 // its length has two octets
)

// perUpdate bounds the prefixes of one message: they fit beside the attributes that a Route may have, see MostCommunities.
const perUpdate = 50

// MostCommunities bounds the communities of a route, of either kind: all that is said of it fits into one message.
const MostCommunities = 60

func afiOf(a netip.Addr) uint16 {
	if a.Is4() {
		return afi4
	}
	return afi6
}

// A speech has what decides about the form of updates in one session.
type speech struct {
	myAS     uint32
	internal bool
	wide     bool
	takes    map[uint16]bool       // families that the peer takes
	hops     map[uint16]netip.Addr // next hops by family; a family without one is not spoken of
}

// attr writes an attribute.
func attr(b []byte, flags, code byte, data []byte) []byte {
	if len(data) > 0xff {
		b = append(b, flags|long, code)
		b = binary.BigEndian.AppendUint16(b, uint16(len(data)))
	} else {
		b = append(b, flags, code, byte(len(data)))
	}
	return append(b, data...)
}

// nlri writes prefixes: a length in bits, and as many octets as that needs.
func nlri(list []netip.Prefix) (b []byte) {
	for _, p := range list {
		raw := p.Masked().Addr().AsSlice()
		b = append(append(b, byte(p.Bits())), raw[:(p.Bits()+7)/8]...)
	}
	return b
}

// attributes are those of a route without its place.
func (s speech) attributes(r Route) (b []byte) {
	b = attr(nil, wellKnown, attrOrigin, []byte{0}) // IGP
	path, path4 := []byte{}, []byte{}
	if !s.internal {
		const sequence = 2
		switch {
		case s.wide:
			path = binary.BigEndian.AppendUint32([]byte{sequence, 1}, s.myAS)
		case s.myAS <= 0xffff:
			path = binary.BigEndian.AppendUint16([]byte{sequence, 1}, uint16(s.myAS))
		default:
			path = binary.BigEndian.AppendUint16([]byte{sequence, 1}, asTrans)
			path4 = binary.BigEndian.AppendUint32([]byte{sequence, 1}, s.myAS)
		}
	}
	b = attr(b, wellKnown, attrASPath, path)
	if r.Prefix.Addr().Is4() {
		b = attr(b, wellKnown, attrNextHop, s.hops[afi4].AsSlice())
	}
	if s.internal {
		b = attr(b, wellKnown, attrLocalPref, binary.BigEndian.AppendUint32(nil, cmp.Or(r.LocalPref, 100)))
	}
	var plain, large []byte
	for _, c := range r.Communities[:min(len(r.Communities), MostCommunities)] {
		plain = binary.BigEndian.AppendUint32(plain, c)
	}
	for _, c := range r.Large[:min(len(r.Large), MostCommunities)] {
		for _, part := range c {
			large = binary.BigEndian.AppendUint32(large, part)
		}
	}
	if len(plain) > 0 {
		b = attr(b, optional|transitive, attrCommunities, plain)
	}
	if len(path4) > 0 {
		b = attr(b, optional|transitive, attrAS4Path, path4)
	}
	if len(large) > 0 {
		b = attr(b, optional|transitive, attrLarge, large)
	}
	return b
}

func (s speech) reach(r Route, list []netip.Prefix) []byte {
	attrs := s.attributes(r)
	if r.Prefix.Addr().Is4() {
		return updateMessage(nil, attrs, nlri(list))
	}
	hop := s.hops[afi6].As16()
	data := append([]byte{0, afi6, unicast, byte(len(hop))}, hop[:]...)
	data = append(append(data, 0), nlri(list)...)
	return updateMessage(nil, append(attr(nil, optional, attrReach, data), attrs...), nil) // first, by RFC 7606
}

func withdraw(afi uint16, list []netip.Prefix) []byte {
	if afi == afi4 {
		return updateMessage(nlri(list), nil, nil)
	}
	return updateMessage(nil, attr(nil, optional, attrUnreach, append([]byte{0, afi6, unicast}, nlri(list)...)), nil)
}

// endOfRIB says that all routes of a family were sent (RFC 4724): a peer that kept old ones forgets those that did not come again. It is a
// withdrawal of nothing.
func endOfRIB(afi uint16) []byte { return withdraw(afi, nil) }

func updateMessage(withdrawn, attrs, reach []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(len(withdrawn)))
	b = append(b, withdrawn...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(attrs)))
	return frame(typeUpdate, append(append(b, attrs...), reach...))
}

// speaks says whether routes of the family can be sent.
func (s speech) speaks(p netip.Prefix) bool { return s.hops[afiOf(p.Addr())].IsValid() }

// difference writes the messages that lead from what was sent to what is wanted, and says what has been sent then. It is pure.
func (s speech) difference(sent map[netip.Prefix]string, want []Route) (out [][]byte, now map[netip.Prefix]string) {
	now = map[netip.Prefix]string{}
	alike := map[string][]Route{} // by attributes and family
	for _, r := range want {
		if !s.speaks(r.Prefix) || now[r.Prefix] != "" {
			continue
		}
		key := fmt.Sprintf("%d ", afiOf(r.Prefix.Addr())) + string(s.attributes(r))
		if now[r.Prefix] = key; sent[r.Prefix] != key {
			alike[key] = append(alike[key], r)
		}
	}
	gone := map[uint16][]netip.Prefix{}
	for p := range sent {
		if now[p] == "" {
			gone[afiOf(p.Addr())] = append(gone[afiOf(p.Addr())], p)
		}
	}
	for _, afi := range []uint16{afi4, afi6} {
		coldsort.Func(gone[afi], netip.Prefix.Compare)
		for part := range slices.Chunk(gone[afi], perUpdate) {
			out = append(out, withdraw(afi, part))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(alike)) {
		for part := range slices.Chunk(alike[key], perUpdate) {
			var prefixes []netip.Prefix
			for _, r := range part {
				prefixes = append(prefixes, r.Prefix)
			}
			out = append(out, s.reach(part[0], prefixes))
		}
	}
	return out, now
}
