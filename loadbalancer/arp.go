package loadbalancer

import (
	"encoding/binary"
	"net"
	"net/netip"
)

// The operations of ARP (RFC 826).
const (
	arpRequest = 1
	arpReply   = 2
)

// arpLength is the length of an ARP packet for IPv4 on Ethernet.
const arpLength = 28

// An arpPacket is one for IPv4 on Ethernet. A node that announces an address is sender and target at once; one that probes
// has no sender address (RFC 5227).
type arpPacket struct {
	op             uint16
	senderMAC      [6]byte
	sender, target netip.Addr
}

// parseARP reads one; ok is false for anything else.
func parseARP(b []byte) (p arpPacket, ok bool) {
	if len(b) < arpLength || binary.BigEndian.Uint16(b) != 1 || binary.BigEndian.Uint16(b[2:]) != 0x0800 || b[4] != 6 || b[5] != 4 {
		return p, false
	}
	p.op = binary.BigEndian.Uint16(b[6:])
	copy(p.senderMAC[:], b[8:14])
	p.sender, p.target = netip.AddrFrom4([4]byte(b[14:18])), netip.AddrFrom4([4]byte(b[24:28]))
	return p, p.op == arpRequest || p.op == arpReply
}

// bytes writes a packet; to is the target's hardware address.
func (p arpPacket) bytes(to net.HardwareAddr) []byte {
	b := make([]byte, arpLength)
	binary.BigEndian.PutUint16(b, 1)
	binary.BigEndian.PutUint16(b[2:], 0x0800)
	b[4], b[5] = 6, 4
	binary.BigEndian.PutUint16(b[6:], p.op)
	copy(b[8:], p.senderMAC[:])
	copy(b[14:], p.sender.AsSlice())
	copy(b[18:24], to)
	copy(b[24:], p.target.AsSlice())
	return b
}
