package dns

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Bounds of what one server does at a time.
const (
	maxForwards = 1000 // questions that others are being asked, CoreDNS's max_concurrent; more are refused
	maxConns    = 500  // connections of clients
	idle        = 10 * time.Second
	answerTime  = 8 * time.Second // for a question that others must answer
)

// A listener takes questions: several UDP sockets that share the address, so that the kernel spreads
// questions over processors, and one of TCP.
type listener struct {
	udp  []*net.UDPConn
	tcp  net.Listener
	kept bool // it is that of the process before this one
}

func listen(ctx context.Context, at netip.AddrPort) (*listener, error) {
	cfg := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		return errors.Join(c.Control(func(fd uintptr) { err = share(fd) }), err)
	}}
	l := &listener{}
	for range max(2, runtime.GOMAXPROCS(0)) {
		c, err := cfg.ListenPacket(ctx, "udp", at.String())
		if err != nil {
			l.close()
			return nil, err
		}
		l.udp = append(l.udp, c.(*net.UDPConn))
		if at.Port() == 0 { // any free port: all must share it
			at = netip.AddrPortFrom(at.Addr(), c.LocalAddr().(*net.UDPAddr).AddrPort().Port())
		}
	}
	var err error
	if l.tcp, err = cfg.Listen(ctx, "tcp", at.String()); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *listener) close() {
	for _, c := range l.udp {
		_ = c.Close()
	}
	if l.tcp != nil {
		_ = l.tcp.Close()
	}
}

// whole says that no socket is missing.
func (l *listener) whole() bool { return l != nil && len(l.udp) > 0 && l.tcp != nil }

// serve answers until ctx ends.
func (l *listener) serve(ctx context.Context, s *server) error {
	stop := context.AfterFunc(ctx, l.close)
	defer stop()
	var all sync.WaitGroup
	defer all.Wait()
	seats := make(chan struct{}, maxForwards)
	errs := make(chan error, len(l.udp)+1)
	for _, c := range l.udp {
		all.Go(func() { errs <- serveUDP(ctx, c, s, seats) })
	}
	all.Go(func() { errs <- serveTCP(ctx, l.tcp, s, seats) })
	err := <-errs
	if ctx.Err() != nil {
		return nil
	}
	l.close()
	return err
}

func serveUDP(ctx context.Context, c *net.UDPConn, s *server, seats chan struct{}) error {
	var asking sync.WaitGroup
	defer asking.Wait()
	in, d := make([]byte, 4096), newDesk() // longer questions are cut, and malformed
	for {
		n, from, err := c.ReadFromUDPAddrPort(in)
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			continue // an earlier answer could not be delivered
		}
		began, t := time.Now(), transport{from: from.Addr()}
		answer, q, ready := s.handle(d, in[:n], t)
		if ready {
			if answer != nil {
				_, _ = c.WriteToUDPAddrPort(answer, from)
				s.told.question(&q, t, answer, began)
			}
			continue
		}
		select {
		case seats <- struct{}{}:
		default:
			_, _ = c.WriteToUDPAddrPort(refuse(d.out, &q, q.udp), from)
			continue
		}
		taken := q // a copy: what the goroutine takes along is on the heap, and most questions need no goroutine
		taken.raw = append([]byte(nil), q.raw...)
		asking.Go(func() {
			defer func() { <-seats }()
			buf := buffers.Get().(*[]byte)
			defer buffers.Put(buf)
			answer := s.patiently(ctx, *buf, taken, t)
			_, _ = c.WriteToUDPAddrPort(answer, from)
			s.told.question(&taken, t, answer, began)
		})
	}
}

// patiently asks others, for a bounded time.
func (s *server) patiently(ctx context.Context, buf []byte, q query, t transport) []byte {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	return s.ask(ctx, buf, q, t)
}

func serveTCP(ctx context.Context, l net.Listener, s *server, seats chan struct{}) error {
	var open sync.WaitGroup
	defer open.Wait()
	room := make(chan struct{}, maxConns)
	for {
		c, err := l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			select { // out of files: wait for some to be closed
			case <-ctx.Done():
				return nil
			case <-time.After(10 * time.Millisecond):
			}
			continue
		}
		select {
		case room <- struct{}{}:
		default:
			_ = c.Close()
			continue
		}
		open.Go(func() {
			defer func() { <-room }()
			stop := context.AfterFunc(ctx, func() { _ = c.Close() })
			defer stop()
			defer c.Close()
			_ = s.converse(ctx, c, seats) // the client went, or said something that is no question
		})
	}
}

// converse answers the questions of one connection in their order.
func (s *server) converse(ctx context.Context, c net.Conn, seats chan struct{}) error {
	from, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return nil
	}
	t := transport{tcp: true, from: from.AddrPort().Addr()}
	d := newDesk()
	var length [2]byte
	for {
		if err := c.SetDeadline(time.Now().Add(idle)); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, length[:]); err != nil {
			return err
		}
		msg := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(c, msg); err != nil {
			return err
		}
		began := time.Now()
		answer, q, ready := s.handle(d, msg, t)
		if !ready {
			select {
			case seats <- struct{}{}:
				answer = s.patiently(ctx, d.out, q, t)
				<-seats
			default:
				answer = refuse(d.out, &q, maxTCP)
			}
		}
		if answer == nil {
			return nil
		}
		if err := c.SetDeadline(time.Now().Add(idle)); err != nil {
			return err
		}
		binary.BigEndian.PutUint16(length[:], uint16(len(answer)))
		bufs := net.Buffers{length[:], answer}
		if _, err := bufs.WriteTo(c); err != nil {
			return err
		}
		s.told.question(&q, t, answer, began)
	}
}
