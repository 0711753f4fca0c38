package wireguard

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Configure gives a link its key and the UDP port on which it listens. Peers stay.
func (c *Conn) Configure(link string, private Key, port uint16) error {
	return c.set(link, func(ae *netlink.AttributeEncoder) {
		ae.Bytes(unix.WGDEVICE_A_PRIVATE_KEY, private[:])
		ae.Uint16(unix.WGDEVICE_A_LISTEN_PORT, port)
	})
}

// Put adds a peer or changes one, to have these addresses and no others. Addresses that another peer had go over at the same moment. An
// endpoint that is not valid stays as it is.
func (c *Conn) Put(link string, key Key, p Peer) error {
	return c.setPeer(link, key, unix.WGPEER_F_REPLACE_ALLOWEDIPS, func(ae *netlink.AttributeEncoder) {
		if p.Endpoint.IsValid() {
			ae.Bytes(unix.WGPEER_A_ENDPOINT, sockaddr(p.Endpoint))
		}
		ae.Uint16(unix.WGPEER_A_PERSISTENT_KEEPALIVE_INTERVAL, p.Keepalive)
		ae.Nested(unix.WGPEER_A_ALLOWEDIPS, func(list *netlink.AttributeEncoder) error {
			for i, a := range p.Allowed {
				list.Nested(uint16(i), func(one *netlink.AttributeEncoder) error {
					family := uint16(unix.AF_INET)
					if a.Addr().Is6() {
						family = unix.AF_INET6
					}
					one.Uint16(unix.WGALLOWEDIP_A_FAMILY, family)
					one.Bytes(unix.WGALLOWEDIP_A_IPADDR, a.Addr().AsSlice())
					one.Uint8(unix.WGALLOWEDIP_A_CIDR_MASK, uint8(a.Bits()))
					return nil
				})
			}
			return nil
		})
	})
}

// Remove takes a peer from a link; one that is not there is no error.
func (c *Conn) Remove(link string, key Key) error {
	return c.setPeer(link, key, unix.WGPEER_F_REMOVE_ME, func(*netlink.AttributeEncoder) {})
}

func (c *Conn) setPeer(link string, key Key, flags uint32, more func(*netlink.AttributeEncoder)) error {
	return c.set(link, func(ae *netlink.AttributeEncoder) {
		ae.Nested(unix.WGDEVICE_A_PEERS, func(list *netlink.AttributeEncoder) error {
			list.Nested(0, func(peer *netlink.AttributeEncoder) error {
				peer.Bytes(unix.WGPEER_A_PUBLIC_KEY, key[:])
				peer.Uint32(unix.WGPEER_A_FLAGS, flags)
				more(peer)
				return nil
			})
			return nil
		})
	})
}

func (c *Conn) set(link string, fill func(*netlink.AttributeEncoder)) error {
	ae := netlink.NewAttributeEncoder()
	ae.String(unix.WGDEVICE_A_IFNAME, link)
	fill(ae)
	body, err := message(unix.WG_CMD_SET_DEVICE, ae)
	if err == nil {
		flags := netlink.Request | netlink.Acknowledge
		_, err = c.c.Execute(netlink.Message{Header: netlink.Header{Type: c.family, Flags: flags}, Data: body})
	}
	if err != nil {
		return fmt.Errorf("configure the WireGuard link %s: %w", link, err)
	}
	return nil
}

// Sizes of the kernel's struct sockaddr_in and sockaddr_in6.
const (
	sockaddr4 = 16
	sockaddr6 = 28
)

// sockaddr is an address as the kernel has it: family, port, then of IPv6 the flow, the address, and of IPv6 the scope.
func sockaddr(a netip.AddrPort) []byte {
	b := make([]byte, sockaddr4)
	family, at := uint16(unix.AF_INET), 4
	if a.Addr().Is6() {
		b, family, at = make([]byte, sockaddr6), unix.AF_INET6, 8
	}
	binary.NativeEndian.PutUint16(b, family)
	binary.BigEndian.PutUint16(b[2:], a.Port())
	copy(b[at:], a.Addr().AsSlice())
	return b
}

// endpoint is the way back; what is neither is the zero value.
func endpoint(b []byte) netip.AddrPort {
	switch {
	case len(b) == sockaddr4:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), binary.BigEndian.Uint16(b[2:]))
	case len(b) == sockaddr6:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])).Unmap(), binary.BigEndian.Uint16(b[2:]))
	}
	return netip.AddrPort{}
}
