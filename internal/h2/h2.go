// Package h2 serves HTTP/2 on the connections that an http.Server hands it. Go's own server wakes three goroutines for each
// frame; here what a handler writes is put on the connection by the handler itself, or by whoever is writing at that moment, with all
// that has gathered meanwhile. A writer never waits in the kernel: see Line.
//
// One goroutine reads each connection, and each request has one that runs its handler. One lock for each connection guards its streams,
// windows and what is yet to be written.
package h2

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Config holds the bounds of a server. All must be set.
type Config struct {
	Streams      int           // at once on one connection
	Header       uint32        // bytes of request headers
	StreamWindow int           // bytes of a request's body that wait for the handler
	ConnWindow   int           // … of all bodies of one connection, at least 64 KiB
	Ping         time.Duration // after which silence a client is asked whether it is there
	Pong         time.Duration // it has to answer
	Idle         time.Duration // after which a connection without requests is closed
	Write        time.Duration // a client may take no bytes; where there is a Line, that bounds it
}

// A Line is a connection that can be written to without waiting for the client. The connection under TLS should be one; if it is none,
// a goroutine writes.
type Line interface {
	// Put calls write, which writes to the connection, and none of that waits. Until what it returns is closed, if that isn't nil, nobody
	// may write, as the client has yet to take what was written.
	Put(write func() error) (taken <-chan struct{}, err error)
	// Err is why nothing can be written any more; nil otherwise.
	Err() error
}

// A Server serves the HTTP/2 connections of one http.Server. It is safe for concurrent use.
type Server struct {
	cfg  Config
	hs   *http.Server
	work chan *stream
	idle atomic.Int32 // workers that wait
	done chan struct{}

	mu      sync.Mutex
	conns   map[*conn]struct{}
	closing bool
	closed  bool
}

// Attach lets hs, which is yet to be started, speak HTTP/2 through the server that it returns: over TLS, and in the clear to clients who
// know that it does, if its Protocols say so. Its Shutdown ends their connections when their requests are answered, and its Close at once;
// then Close of what is returned must be called.
func Attach(hs *http.Server, cfg Config) *Server {
	s := &Server{cfg: cfg, hs: hs, work: make(chan *stream), done: make(chan struct{}), conns: map[*conn]struct{}{}}
	if hs.TLSNextProto == nil {
		hs.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
	}
	hs.TLSNextProto["h2"] = func(_ *http.Server, c *tls.Conn, h http.Handler) {
		state := c.ConnectionState()
		if !modern(&state) {
			return
		}
		s.serve(base(h), c, &state, h)
	}
	hs.TLSNextProto["unencrypted_http2"] = func(_ *http.Server, c *tls.Conn, h http.Handler) {
		if in, ok := c.NetConn().(interface{ UnencryptedNetConn() net.Conn }); ok { // net/http's way to hand over what is no TLS
			s.serve(base(h), in.UnencryptedNetConn(), nil, h)
		}
	}
	hs.RegisterOnShutdown(s.shutdown)
	return s
}

// base is the context of a connection, which net/http hands over with the handler.
func base(h http.Handler) context.Context {
	if b, ok := h.(interface{ BaseContext() context.Context }); ok {
		return b.BaseContext()
	}
	return context.Background()
}

// modern says that TLS is as new as HTTP/2 asks for.
func modern(state *tls.ConnectionState) bool { return state.Version >= tls.VersionTLS12 }

// serve answers on a connection until it ends. Without TLS, state is nil and what clients begin with has been read.
func (s *Server) serve(ctx context.Context, nc net.Conn, state *tls.ConnectionState, h http.Handler) {
	ctx, cancel := context.WithCancel(context.WithValue(ctx, http.ServerContextKey, s.hs))
	defer cancel()
	c := newConn(ctx, s, nc, state, h)
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return
	}
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
	c.serve()
}

// shutdown lets every connection end after the requests that are under way.
func (s *Server) shutdown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	for c := range s.conns {
		c.leave()
	}
}

// Close ends the goroutines that wait for requests. It may be called twice.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	if !s.closed {
		s.closed = true
		close(s.done)
	}
}

// idleWorkers bounds the goroutines that wait for requests when there are none: they keep the stacks that they have grown.
const idleWorkers = 32

// run has the stream's request answered.
func (s *Server) run(st *stream) {
	select {
	case s.work <- st:
	default:
		go s.worker(st)
	}
}

func (s *Server) worker(st *stream) {
	for ok := true; ok; st, ok = s.next() {
		st.serve()
	}
}

func (s *Server) next() (*stream, bool) {
	defer s.idle.Add(-1)
	if s.idle.Add(1) > idleWorkers {
		return nil, false
	}
	select {
	case st := <-s.work:
		return st, true
	case <-s.done:
		return nil, false
	}
}
