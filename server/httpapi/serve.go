package httpapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/kloop-dev/kloop/internal/h2"
)

// Bounds of connections.
const (
	idleConn      = 90 * time.Second
	headerLimit   = 64 << 10 // bytes of request headers
	headerTimeout = 32 * time.Second
	drainLimit    = 10 * time.Second      // for requests under way at shutdown
	linger        = 20 * time.Millisecond // for the last frames to leave, once no request is under way
	streamsLimit  = 1000                  // HTTP/2 streams on one connection: informers share it
)

// Leave says at /readyz that the server will end soon, so that load balancers send nobody any more. It serves on.
func (h *Handler) Leave() { h.s.streams.announce() }

// Serve answers on the listener until ctx ends; then it ends watches and other streams, lets short requests
// finish, and returns. tlsConfig nil means plain HTTP, for tests and sockets that are protected otherwise.
func (h *Handler) Serve(ctx context.Context, l net.Listener, tlsConfig *tls.Config) error {
	srv := h.server(tlsConfig)
	busy := &busyConns{conns: map[net.Conn]bool{}, rested: make(chan struct{}, 1)}
	srv.ConnState, srv.ConnContext = busy.note, withLine
	defer h2.Attach(srv, streamBounds(h.s.cfg.WriteStall)).Close()
	l = lines{l, h.s.cfg.WriteStall}
	failed := make(chan error, 1)
	go func() {
		if tlsConfig == nil {
			failed <- srv.Serve(l)
			return
		}
		failed <- srv.ServeTLS(l, "", "")
	}()
	select {
	case err := <-failed:
		return fmt.Errorf("serve the API on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	h.Close()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainLimit)
	defer cancel()
	err := shutdown(drain, srv, busy)
	<-failed
	return err
}

// shutdown takes no new requests and ends when those under way have been answered. Shutdown alone would keep
// every HTTP/2 connection open for a second after its last answer, in case the client has not heard yet.
func shutdown(ctx context.Context, srv *http.Server, busy *busyConns) error {
	down := make(chan error, 1)
	go func() { down <- srv.Shutdown(ctx) }()
	for !busy.none() {
		select {
		case <-busy.rested:
		case err := <-down:
			if err != nil {
				return errors.Join(fmt.Errorf("shut down the API: %w", err), srv.Close())
			}
			return nil
		}
	}
	select {
	case <-down:
	case <-time.After(linger):
		_ = srv.Close() // of connections that nobody uses any more
		<-down
	}
	return nil
}

// busyConns knows which connections have requests under way.
type busyConns struct {
	mu     sync.Mutex
	conns  map[net.Conn]bool
	rested chan struct{} // the last one has come to rest
}

// note is the server's ConnState hook.
func (b *busyConns) note(c net.Conn, state http.ConnState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if state == http.StateActive {
		b.conns[c] = true
		return
	}
	delete(b.conns, c)
	if len(b.conns) == 0 {
		select {
		case b.rested <- struct{}{}:
		default:
		}
	}
}

func (b *busyConns) none() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.conns) == 0
}

// streamBounds are those of HTTP/2.
func streamBounds(stall time.Duration) h2.Config {
	return h2.Config{Streams: streamsLimit, Header: headerLimit, StreamWindow: 256 << 10, ConnWindow: 1 << 20, Ping: 30 * time.Second,
		Pong: 15 * time.Second, Idle: idleConn, Write: stall}
}

func (h *Handler) server(tlsConfig *tls.Config) *http.Server {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleConn, MaxHeaderBytes: headerLimit,
		ErrorLog:  slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug), // handshakes of strangers
		Protocols: new(http.Protocols)}
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetHTTP2(true)
	if tlsConfig != nil {
		srv.TLSConfig = tlsConfig.Clone()
		srv.TLSConfig.NextProtos = []string{"h2", "http/1.1"}
	} else {
		srv.Protocols.SetUnencryptedHTTP2(true)
	}
	return srv
}
