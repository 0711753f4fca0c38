package wireguard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/internal/coldsort"
)

// A Peer is another machine as a link has it.
type Peer struct {
	Endpoint  netip.AddrPort
	Allowed   []netip.Prefix // addresses that are there, in order
	Keepalive uint16         // seconds between packets that only say "I live"; 0: none
	Handshake time.Time      // when both last agreed on keys; zero: never. Only read.
}

// Same says that the kernel needs no word of another state: the handshake is its own.
func (p Peer) Same(o Peer) bool {
	return p.Endpoint == o.Endpoint && p.Keepalive == o.Keepalive && slices.Equal(p.Allowed, o.Allowed)
}

// A Device has all of a link but its private key.
type Device struct {
	Public Key // zero: none yet
	Port   uint16
	Peers  map[Key]Peer
}

// A Conn speaks to the kernel about the links of one network namespace. Not for several goroutines at once.
type Conn struct {
	c      *netlink.Conn
	family netlink.HeaderType
}

// Open opens the namespace of the calling thread. An error says that the kernel has no WireGuard.
func Open() (*Conn, error) {
	c, err := netlink.Dial(unix.NETLINK_GENERIC, nil)
	if err != nil {
		return nil, fmt.Errorf("open a socket to the kernel's WireGuard: %w", err)
	}
	ae := netlink.NewAttributeEncoder()
	ae.String(unix.CTRL_ATTR_FAMILY_NAME, unix.WG_GENL_NAME)
	body, err := message(unix.CTRL_CMD_GETFAMILY, ae)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	replies, err := c.Execute(netlink.Message{Header: netlink.Header{Type: unix.GENL_ID_CTRL, Flags: netlink.Request}, Data: body})
	conn := &Conn{c: c}
	for _, r := range replies {
		err = errors.Join(err, each(r, func(ad *netlink.AttributeDecoder) error {
			if ad.Type() == unix.CTRL_ATTR_FAMILY_ID {
				conn.family = netlink.HeaderType(ad.Uint16())
			}
			return nil
		}))
	}
	if err == nil && conn.family == 0 {
		err = unix.ENOENT
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("find the kernel's WireGuard: %w", err), c.Close())
	}
	return conn, nil
}

// Close closes the socket. Links stay as they are.
func (c *Conn) Close() error { return c.c.Close() }

// message puts the header of generic netlink before the attributes.
func message(command uint8, ae *netlink.AttributeEncoder) ([]byte, error) {
	const version = 1
	body, err := ae.Encode()
	return append([]byte{command, version, 0, 0}, body...), err
}

// each walks the attributes of a message.
func each(m netlink.Message, f func(*netlink.AttributeDecoder) error) error {
	const header = 4
	if len(m.Data) < header {
		return errors.New("the kernel's answer is too short")
	}
	return walk(m.Data[header:], f)
}

func walk(data []byte, f func(*netlink.AttributeDecoder) error) error {
	ad, err := netlink.NewAttributeDecoder(data)
	if err != nil {
		return err
	}
	for ad.Next() {
		if err := f(ad); err != nil {
			return err
		}
	}
	return ad.Err()
}

// Device reads a link. One of many peers comes in several messages, and so may the addresses of one peer.
func (c *Conn) Device(link string) (d Device, err error) {
	d.Peers = map[Key]Peer{}
	ae := netlink.NewAttributeEncoder()
	ae.String(unix.WGDEVICE_A_IFNAME, link)
	body, err := message(unix.WG_CMD_GET_DEVICE, ae)
	if err != nil {
		return d, err
	}
	for range 5 { // again when it changed on the way
		var replies []netlink.Message
		replies, err = c.c.Execute(netlink.Message{Header: netlink.Header{Type: c.family, Flags: netlink.Request | netlink.Dump}, Data: body})
		if err != nil || !interrupted(replies) {
			for i := 0; i < len(replies) && err == nil; i++ {
				err = each(replies[i], d.read)
			}
			break
		}
	}
	if err != nil {
		return d, fmt.Errorf("read the WireGuard link %s: %w", link, err)
	}
	for k, p := range d.Peers {
		coldsort.Func(p.Allowed, netip.Prefix.Compare)
		d.Peers[k] = p
	}
	return d, nil
}

func interrupted(list []netlink.Message) bool {
	return slices.ContainsFunc(list, func(m netlink.Message) bool { return m.Header.Flags&netlink.DumpInterrupted != 0 })
}

func (d *Device) read(ad *netlink.AttributeDecoder) error {
	switch ad.Type() {
	case unix.WGDEVICE_A_PUBLIC_KEY:
		copy(d.Public[:], ad.Bytes())
	case unix.WGDEVICE_A_LISTEN_PORT:
		d.Port = ad.Uint16()
	case unix.WGDEVICE_A_PEERS:
		return walk(ad.Bytes(), func(list *netlink.AttributeDecoder) error { return d.readPeer(list.Bytes()) })
	}
	return nil
}

func (d *Device) readPeer(data []byte) error {
	var key Key
	var p Peer
	err := walk(data, func(ad *netlink.AttributeDecoder) error {
		switch ad.Type() {
		case unix.WGPEER_A_PUBLIC_KEY: // the first
			copy(key[:], ad.Bytes())
			p = d.Peers[key]
		case unix.WGPEER_A_ENDPOINT:
			p.Endpoint = endpoint(ad.Bytes())
		case unix.WGPEER_A_PERSISTENT_KEEPALIVE_INTERVAL:
			p.Keepalive = ad.Uint16()
		case unix.WGPEER_A_LAST_HANDSHAKE_TIME: // seconds and nanoseconds
			if b := ad.Bytes(); len(b) == 16 && binary.NativeEndian.Uint64(b) != 0 {
				p.Handshake = time.Unix(int64(binary.NativeEndian.Uint64(b)), int64(binary.NativeEndian.Uint64(b[8:])))
			}
		case unix.WGPEER_A_ALLOWEDIPS:
			return walk(ad.Bytes(), func(list *netlink.AttributeDecoder) error {
				a, err := allowed(list.Bytes())
				p.Allowed = append(p.Allowed, a)
				return err
			})
		}
		return nil
	})
	d.Peers[key] = p
	return err
}

func allowed(data []byte) (p netip.Prefix, err error) {
	var ip netip.Addr
	var bits uint8
	err = walk(data, func(ad *netlink.AttributeDecoder) error {
		switch ad.Type() {
		case unix.WGALLOWEDIP_A_IPADDR:
			ip, _ = netip.AddrFromSlice(ad.Bytes()) // of another length: the zero address
		case unix.WGALLOWEDIP_A_CIDR_MASK:
			bits = ad.Uint8()
		}
		return nil
	})
	return netip.PrefixFrom(ip, int(bits)), err
}
