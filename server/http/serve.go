package httpapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Bounds of connections.
const (
	idleConn      = 90 * time.Second
	headerLimit   = 64 << 10 // bytes of request headers
	headerTimeout = 32 * time.Second
	drainLimit    = 10 * time.Second // for requests under way at shutdown
	streamsLimit  = 1000             // HTTP/2 streams on one connection: informers share it
)

// Serve answers on the listener until ctx ends; then it ends watches and other streams, lets short requests
// finish, and returns. tlsConfig nil means plain HTTP, for tests and sockets that are protected otherwise.
func (h *Handler) Serve(ctx context.Context, l net.Listener, tlsConfig *tls.Config) error {
	srv := h.server(tlsConfig)
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
	err := srv.Shutdown(drain)
	if err != nil {
		err = errors.Join(fmt.Errorf("shut down the API: %w", err), srv.Close())
	}
	<-failed
	return err
}

func (h *Handler) server(tlsConfig *tls.Config) *http.Server {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleConn, MaxHeaderBytes: headerLimit,
		ErrorLog:  slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug), // handshakes of strangers
		Protocols: new(http.Protocols),
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: streamsLimit, SendPingTimeout: 30 * time.Second,
			PingTimeout: 15 * time.Second, WriteByteTimeout: time.Minute, MaxReceiveBufferPerStream: 256 << 10,
			MaxReceiveBufferPerConnection: 1 << 20}}
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
