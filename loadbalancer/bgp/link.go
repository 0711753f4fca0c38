package bgp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A link is a connection. One goroutine reads, one writes, and a third may end it.
type link struct {
	net.Conn
	leaving atomic.Bool
	mu      sync.Mutex // one message at a time
	ended   bool
}

// connect opens a link. It is signed, and its packets' lives are set, before the first of them leaves.
func connect(ctx context.Context, p Peer) (*link, error) {
	d := net.Dialer{Timeout: connectTime, Control: func(_, _ string, c syscall.RawConn) error {
		var opt error
		err := c.Control(func(fd uintptr) {
			if p.Password != "" {
				opt = sign(int(fd), p)
			}
			if opt == nil && !p.MultiHop && !p.internal() {
				opt = oneHop(int(fd), p.Address)
			}
		})
		return errors.Join(err, opt)
	}}
	if p.Source.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(p.Source, 0))
	}
	c, err := d.DialContext(ctx, "tcp", p.target().String())
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		return nil, fmt.Errorf("connect: no answer from %s in %s: is it reached, without a router unless ebgpMultiHop, "+
			"and are the passwords the same?", p.target(), connectTime)
	}
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return &link{Conn: c}, nil
}

// sign has the kernel sign each segment, and drop those that are not signed alike (RFC 2385).
func sign(fd int, p Peer) error {
	const longest = 80
	if len(p.Password) > longest {
		return fmt.Errorf("the password has %d octets; the kernel takes %d", len(p.Password), longest)
	}
	m := &unix.TCPMD5Sig{Keylen: uint16(len(p.Password))}
	copy(m.Key[:], p.Password)
	m.Addr.Family = unix.AF_INET
	at := 2 // in a sockaddr_in, behind the port
	if p.Address.Is6() {
		m.Addr.Family = unix.AF_INET6
		at = 6 // in a sockaddr_in6, behind the flow label
	}
	raw := m.Addr.Data[:]
	for i, b := range p.Address.AsSlice() {
		copyOctet(raw, at+i, b)
	}
	if err := unix.SetsockoptTCPMD5Sig(fd, unix.IPPROTO_TCP, unix.TCP_MD5SIG, m); err != nil {
		return fmt.Errorf("sign what is said to the peer (TCP MD5): %w", err)
	}
	return nil
}

// copyOctet is there because the kernel's char has a sign on some machines.
func copyOctet[T ~int8 | ~uint8](to []T, at int, b byte) { to[at] = T(b) }

// oneHop keeps the session on the link: a peer of another AS that is behind a router needs MultiHop, as everywhere.
func oneHop(fd int, to netip.Addr) error {
	if to.Is4() {
		return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TTL, 1)
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, 1)
}

// say writes one message whole. After one that was not written whole nothing can be said any more.
func (l *link) say(m []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.SetWriteDeadline(time.Now().Add(writeTime))
	if l.ended || l.leaving.Load() {
		return net.ErrClosed
	}
	if err == nil {
		_, err = l.Write(m)
	}
	l.ended = err != nil
	return err
}

// end tells the peer why the session ends, where it is we who end it.
func (l *link) end(err error) error {
	if n := new(notification); errors.As(err, &n) && !n.theirs {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.ended {
			_ = l.SetWriteDeadline(time.Now().Add(lastWord))
			_, _ = l.Write(frame(typeNotification, []byte{n.code, n.sub})) // the peer may be gone
		}
		l.ended = true
	}
	return err
}

// leave ends the link from another goroutine: with an error that the peer hears, or without a word. A message that is being written
// has a second to get through.
func (l *link) leave(err error) {
	l.leaving.Store(true)
	_ = l.SetWriteDeadline(time.Now().Add(lastWord)) // after leaving: what is written from now on does not lengthen it
	_ = l.end(err)
	l.Close()
}

// next reads one message that the protocol allows here, within the time; 0: forever.
func (l *link) next(within time.Duration) (typ byte, body []byte, err error) {
	var until time.Time
	if within > 0 {
		until = time.Now().Add(within)
	}
	if err := l.SetReadDeadline(until); err != nil {
		return 0, nil, err
	}
	typ, body, err = read(l)
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		return 0, nil, refuse(4, 0, "the peer said nothing for %s", within)
	}
	if n := new(notification); err != nil && !errors.As(err, &n) {
		return 0, nil, fmt.Errorf("the connection is lost: %w", err)
	}
	if err == nil && typ == typeNotification {
		err = readNotification(body)
	}
	return typ, body, err
}

// listen reads until the session ends. Silence for the hold time ends it. Routes are nothing to us; refresh is called when the peer
// wants ours again.
func (l *link) listen(hold time.Duration, refresh func()) error {
	for {
		typ, body, err := l.next(hold)
		switch {
		case err != nil:
			return err
		case typ == typeOpen:
			return refuse(5, 3, "a second OPEN")
		case typ == typeRefresh:
			refresh()
		case typ == typeUpdate:
			if err := checkUpdate(body); err != nil {
				return err
			}
		}
	}
}
