// Package ipvs speaks to the kernel's virtual servers, IPVS, by generic netlink: many commands go in one message, and what is there
// can be listed. No ipvsadm is needed.
//
// Sockets belong to the network namespace of the thread that opens them.
package ipvs

import (
	"errors"
	"fmt"
	"net/netip"
)

// Flags of a Service.
const (
	Persistent = 0x1  // a client keeps its Destination for the service's Timeout
	hashed     = 0x2  // the kernel's own
	SourcePort = 0x10 // the schedulers sh and mh take the client's port into account
)

// ErrMissing says that the kernel has no IPVS: its module is not loaded, and could not be.
var ErrMissing = errors.New("the kernel has no IPVS: module ip_vs")

// A Key names a service: by address, protocol and port, or by the mark of packets.
type Key struct {
	Addr     netip.Addr // of a Mark: any of the family
	Protocol uint8
	Port     uint16
	Mark     uint32
}

// String names the virtual server by its firewall mark, or by address, port and number of the protocol.
func (k Key) String() string {
	if k.Mark != 0 {
		return fmt.Sprintf("mark %#x", k.Mark)
	}
	return fmt.Sprintf("%s protocol %d", netip.AddrPortFrom(k.Addr, k.Port), k.Protocol)
}

// A Service is a virtual server.
type Service struct {
	Key
	Scheduler string // rr, lc…
	Flags     uint32
	Timeout   uint32 // seconds, of Persistent
}

// A Destination is one real server of a service. Connections to it are translated (NAT).
type Destination struct {
	At     netip.AddrPort
	Weight uint32 // 0: no new connections
	Active int    // connections, as the kernel counts them
	Idle   int    // connections that are on their way in or out
}

// Commands of the kernel's interface, linux/ip_vs.h.
const (
	newService = 1 + iota
	setService
	delService
	getService
	newDest
	setDest
	delDest
	getDest
	setConfig = 12
)

// Attributes.
const (
	attrService, attrDest                             = 1, 2
	svcFamily, svcProtocol, svcAddr, svcPort, svcMark = 1, 2, 3, 4, 5
	svcSched, svcFlags, svcTimeout, svcNetmask        = 6, 7, 8, 9
	destAddr, destPort, destMethod, destWeight        = 1, 2, 3, 4
	destUpper, destLower, destActive, destIdle        = 5, 6, 7, 8
	destFamily                                        = 11
)
