package loadbalancer

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// beatPort is UDP's, on the nodes' addresses. It is MetalLB's, so that a firewall's rule for that holds here too.
const beatPort = 7946

// A word goes from node to node, one in a datagram: "kloop-lb alive NODE", every 200 ms by the holder of addresses, to the other
// candidates; "kloop-lb yield NODE ADDRESS REVISION" by a node that has taken an address over, to the one that had it.
//
// Nothing is signed: who can forge the source address of a datagram in the nodes' network can answer ARP there as well. Words count
// only from the address of the node that they name, and never make anybody answer: the Lease does.
type word struct {
	yield bool
	node  string
	addr  netip.Addr // to yield
	rev   int64      // of the Lease that says so
	from  netip.Addr
}

const greeting = "kloop-lb"

func (w word) bytes() []byte {
	if !w.yield {
		return []byte(greeting + " alive " + w.node)
	}
	return fmt.Appendf(nil, "%s yield %s %s %d", greeting, w.node, w.addr, w.rev)
}

func parseWord(b []byte, from netip.Addr) (w word, ok bool) {
	f := strings.Fields(string(b))
	if len(f) < 3 || f[0] != greeting {
		return w, false
	}
	w.node, w.from = f[2], from.Unmap()
	switch {
	case f[1] == "alive" && len(f) == 3:
		return w, true
	case f[1] == "yield" && len(f) == 5:
		addr, err := netip.ParseAddr(f[3])
		rev, rerr := strconv.ParseInt(f[4], 10, 64)
		w.yield, w.addr, w.rev = true, addr, rev
		return w, err == nil && rerr == nil
	}
	return w, false
}

// hear hands words over until the socket is closed.
func hear(c *net.UDPConn, to chan<- word, done <-chan struct{}) {
	buf := make([]byte, 512)
	for {
		n, from, err := c.ReadFromUDPAddrPort(buf)
		if err != nil {
			return // closed: a socket that is not connected has no other errors of its own
		}
		if w, ok := parseWord(buf[:n], from.Addr()); ok {
			select {
			case to <- w:
			case <-done:
				return
			}
		}
	}
}
