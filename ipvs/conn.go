package ipvs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/internal/netlinkconn"
)

var native = binary.NativeEndian

// A Conn is a socket to the kernel's virtual servers. It is not safe for concurrent use.
type Conn struct {
	sock   *netlinkconn.Conn
	family uint16
	seq    uint32
}

// patience bounds the wait for an answer.
const patience = time.Minute

// Open opens a socket in the network namespace of this thread. ErrMissing: the kernel has no IPVS, and none could be loaded.
func Open() (*Conn, error) {
	sock, err := netlinkconn.Open(unix.NETLINK_GENERIC, patience, 0)
	if err != nil {
		return nil, fmt.Errorf("open a socket to IPVS: %w", err)
	}
	c := &Conn{sock: sock}
	if err := c.resolve(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close closes the socket.
func (c *Conn) Close() { c.sock.Close() }

// resolve asks for the number under which the kernel knows IPVS. Asking has it load the module, where it can.
func (c *Conn) resolve() error {
	name := nl.NewRtAttr(nl.GENL_CTRL_ATTR_FAMILY_NAME, nl.ZeroTerminated("IPVS"))
	_, err := c.ask(nl.GENL_ID_CTRL, nl.GENL_CTRL_CMD_GETFAMILY, unix.NLM_F_ACK, name, func(body []byte) {
		if id := find(body, nl.GENL_CTRL_ATTR_FAMILY_ID); len(id) >= 2 {
			c.family = native.Uint16(id)
		}
	})
	if errors.Is(err, unix.ENOENT) || err == nil && c.family == 0 {
		return ErrMissing
	}
	if err != nil {
		return fmt.Errorf("look for IPVS: %w", err)
	}
	return nil
}

// message writes one request. sequence numbers are those that the kernel answers with.
func (c *Conn) message(typ uint16, cmd uint8, flags uint16, attrs ...*nl.RtAttr) []byte {
	c.seq++
	r := nl.NetlinkRequest{NlMsghdr: unix.NlMsghdr{Len: unix.SizeofNlMsghdr, Type: typ, Flags: unix.NLM_F_REQUEST | flags, Seq: c.seq}}
	r.AddData(&nl.Genlmsg{Command: cmd, Version: 1})
	for _, a := range attrs {
		if a != nil {
			r.AddData(a)
		}
	}
	b := r.Serialize()
	return append(b, make([]byte, (4-len(b)%4)%4)...)
}

// ask sends one request and hands out the parts of the answer. changed: the list changed while it was made.
func (c *Conn) ask(typ uint16, cmd uint8, flags uint16, attr *nl.RtAttr, each func(attrs []byte)) (changed bool, err error) {
	b := c.message(typ, cmd, flags, attr)
	want := c.seq
	if err := c.sock.Send(b); err != nil {
		return false, err
	}
	var failed error
	for done := false; !done; {
		err := c.sock.Receive(func(kind, f uint16, seq uint32, body []byte) {
			if seq != want {
				return
			}
			changed = changed || f&unix.NLM_F_DUMP_INTR != 0
			switch {
			case kind == unix.NLMSG_DONE, kind == unix.NLMSG_ERROR:
				done = true
				if len(body) >= 4 {
					if code := int32(native.Uint32(body)); code < 0 {
						failed = syscall.Errno(-code)
					}
				}
			case len(body) >= 4:
				each(body[4:])
			}
		})
		if err != nil {
			return false, fmt.Errorf("wait for IPVS: %w", err)
		}
	}
	return changed, failed
}

// find returns the first attribute of the type. It stops at the first that makes no sense.
func find(b []byte, typ uint16) []byte {
	for len(b) >= 4 {
		n := int(native.Uint16(b))
		if n < 4 || n > len(b) {
			return nil
		}
		if native.Uint16(b[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER) == typ {
			return b[4:n]
		}
		b = b[min((n+3)&^3, len(b)):]
	}
	return nil
}

func number(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return native.Uint32(b)
}

func short(b []byte) uint16 {
	if len(b) < 2 {
		return 0
	}
	return native.Uint16(b)
}

func port(b []byte) uint16 {
	if len(b) < 2 {
		return 0
	}
	return binary.BigEndian.Uint16(b)
}
