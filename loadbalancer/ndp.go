package loadbalancer

import (
	"encoding/binary"
	"net"
	"net/netip"
)

// The messages of neighbour discovery (RFC 4861).
const (
	solicitation  = 135
	advertisement = 136
)

// The flags of an advertisement.
const (
	flagSolicited = 1 << 30
	flagOverride  = 1 << 29
)

var allNodes = netip.MustParseAddr("ff02::1")

// An ndpPacket is a neighbour solicitation or advertisement.
type ndpPacket struct {
	kind     uint8
	flags    uint32
	from, to netip.Addr
	target   netip.Addr
	mac      net.HardwareAddr // of the option: the source's of a solicitation, the target's of an advertisement; nil: none
}

// solicited is the multicast group to which who asks for an address sends.
func solicited(a netip.Addr) netip.Addr {
	b := netip.MustParseAddr("ff02::1:ff00:0").As16()
	from := a.As16()
	copy(b[13:], from[13:])
	return netip.AddrFrom16(b)
}

// multicastMAC is the hardware address of an IPv6 multicast group.
func multicastMAC(a netip.Addr) net.HardwareAddr {
	b := a.As16()
	return net.HardwareAddr{0x33, 0x33, b[12], b[13], b[14], b[15]}
}

// parseNDP reads one from an IPv6 packet; ok is false for anything else, and for what came through a router.
func parseNDP(b []byte) (p ndpPacket, ok bool) {
	const header = 40
	if len(b) < header+24 || b[0]>>4 != 6 || b[6] != 58 || b[7] != 255 {
		return p, false
	}
	p.from, p.to = netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
	body := b[header:]
	if n := int(binary.BigEndian.Uint16(b[4:])); n < 24 || n > len(body) {
		return p, false
	} else {
		body = body[:n]
	}
	p.kind, p.flags = body[0], binary.BigEndian.Uint32(body[4:])
	p.target = netip.AddrFrom16([16]byte(body[8:24]))
	if p.kind != solicitation && p.kind != advertisement || body[1] != 0 || checksum(p.from, p.to, body) != 0 {
		return p, false
	}
	wanted := byte(1) // source link-layer address
	if p.kind == advertisement {
		wanted = 2
	}
	for opts := body[24:]; len(opts) >= 8 && opts[1] != 0 && int(opts[1])*8 <= len(opts); opts = opts[int(opts[1])*8:] {
		if opts[0] == wanted {
			p.mac = net.HardwareAddr(opts[2:8])
		}
	}
	return p, true
}

// bytes writes the IPv6 packet.
func (p ndpPacket) bytes() []byte {
	body := make([]byte, 24, 32)
	body[0] = p.kind
	binary.BigEndian.PutUint32(body[4:], p.flags)
	copy(body[8:], p.target.AsSlice())
	if p.mac != nil {
		option := byte(1)
		if p.kind == advertisement {
			option = 2
		}
		body = append(append(body, option, 1), p.mac[:6]...)
	}
	binary.BigEndian.PutUint16(body[2:], checksum(p.from, p.to, body))
	b := make([]byte, 40, 40+len(body))
	b[0], b[6], b[7] = 6<<4, 58, 255
	binary.BigEndian.PutUint16(b[4:], uint16(len(body)))
	copy(b[8:], p.from.AsSlice())
	copy(b[24:], p.to.AsSlice())
	return append(b, body...)
}

// checksum is that of ICMPv6; of a packet that has a right one it is 0.
func checksum(from, to netip.Addr, body []byte) uint16 {
	sum := uint32(len(body)) + 58
	add := func(b []byte) {
		for i := 0; i+1 < len(b); i += 2 {
			sum += uint32(b[i])<<8 | uint32(b[i+1])
		}
		if len(b)%2 == 1 {
			sum += uint32(b[len(b)-1]) << 8
		}
	}
	add(from.AsSlice())
	add(to.AsSlice())
	add(body)
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
