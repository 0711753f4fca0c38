// Package pipe is a listener of connections in memory: waiting for one is waiting for a channel, so that simulated time can go on.
package pipe

import (
	"context"
	"net"
	"sync"
)

// A Listener is dialled by its method Dial alone.
type Listener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// Listen returns a listener.
func Listen() *Listener { return &Listener{conns: make(chan net.Conn), done: make(chan struct{})} }

// Accept implements net.Listener.
func (p *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *Listener) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

// Addr implements net.Listener.
func (p *Listener) Addr() net.Addr { return address{} }

// Dial connects to the listener. It fails when that is closed or ctx ends.
func (p *Listener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- addressed{theirs}:
		return addressed{ours}, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// address is an address as a server expects of its clients.
type address struct{}

func (address) Network() string { return "tcp" }
func (address) String() string  { return "192.0.2.1:443" }

type addressed struct{ net.Conn }

func (addressed) RemoteAddr() net.Addr { return address{} }
func (addressed) LocalAddr() net.Addr  { return address{} }
