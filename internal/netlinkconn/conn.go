// Package netlinkconn carries messages to a part of the kernel and back: the transport that packages nft and ipvs share. What
// stands in the messages is for them.
package netlinkconn

import (
	"encoding/binary"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// HeaderLen is the length of a message's header, in bytes.
const HeaderLen = unix.SizeofNlMsghdr

// A Conn is a netlink socket. It is not safe for concurrent use.
type Conn struct {
	fd  int
	buf []byte
}

// Open opens a socket of a netlink family in the network namespace of this thread. An answer may take as long as patience. room, if
// it is not 0, bounds the socket's buffers in bytes: where forcing it is not allowed the system's bound holds.
func Open(family int, patience time.Duration, room int) (*Conn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, family)
	if err != nil {
		return nil, err
	}
	if room > 0 && unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, room) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, room)
	}
	if room > 0 && unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, room) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, room)
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1) // answers need not carry the question
	limit := unix.NsecToTimeval(patience.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &Conn{fd: fd, buf: make([]byte, 128<<10)}, nil
}

// Close closes the socket.
func (c *Conn) Close() { unix.Close(c.fd) }

// Send sends messages, whole.
func (c *Conn) Send(b []byte) error {
	for {
		err := unix.Sendto(c.fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Receive hands out the messages of one datagram. What they carry is valid until the next call.
func (c *Conn) Receive(each func(typ, flags uint16, seq uint32, body []byte)) error {
	n, _, err := unix.Recvfrom(c.fd, c.buf, 0)
	for errors.Is(err, unix.EINTR) {
		n, _, err = unix.Recvfrom(c.fd, c.buf, 0)
	}
	if err != nil {
		return err
	}
	return split(c.buf[:n], each)
}

// split takes a datagram apart. It stops at a length that can't be.
func split(b []byte, each func(typ, flags uint16, seq uint32, body []byte)) error {
	native := binary.NativeEndian
	for len(b) >= HeaderLen {
		l := int(native.Uint32(b))
		if l < HeaderLen || l > len(b) {
			return errors.New("a netlink message of impossible length")
		}
		each(native.Uint16(b[4:]), native.Uint16(b[6:]), native.Uint32(b[8:]), b[HeaderLen:l])
		b = b[min((l+3)&^3, len(b)):]
	}
	return nil
}
