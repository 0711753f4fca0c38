package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/websocket"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/server"
)

// isWebSocket says that the client wants to speak WebSocket.
func isWebSocket(r *http.Request) bool { return upgrades(r, "websocket") }

func isSPDY(r *http.Request) bool { return upgrades(r, "spdy/3.1") }

func upgrades(r *http.Request, to string) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), to) &&
		strings.Contains(strings.ToLower(r.Header.Get("Connection")), "upgrade")
}

// upgrader accepts every origin: callers are known by their credentials, which browsers do not send by themselves.
func upgrader(protocols ...string) *websocket.Upgrader {
	return &websocket.Upgrader{HandshakeTimeout: 10 * time.Second, Subprotocols: protocols,
		CheckOrigin: func(*http.Request) bool { return true }}
}

// watchSocket streams a watch as one WebSocket message per event.
func (c *call) watchSocket(req *server.Request, opts *metav1.ListOptions, f framer) error {
	ctx, cancel := context.WithCancel(c.r.Context())
	defer cancel()
	conn, err := upgrader().Upgrade(c.w, c.r, nil)
	if err != nil {
		return nil // the upgrader has answered
	}
	defer conn.Close()
	go discardMessages(conn, cancel)
	kind := websocket.TextMessage
	if c.acc.format == asProto {
		kind = websocket.BinaryMessage
	}
	say := func(b []byte) error {
		_ = conn.SetWriteDeadline(time.Now().Add(c.cfg.WriteStall))
		return conn.WriteMessage(kind, b)
	}
	err = c.cfg.Ops.Watch(ctx, req, opts, func(events []server.Event) error {
		for i := range events {
			frame, err := f.frame(ctx, nil, &events[i])
			if err != nil {
				return err
			}
			if err := say(frame); err != nil {
				cancel()
				return err
			}
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		if frame, ferr := f.failure(statusOf(err)); ferr == nil {
			err = errors.Join(err, say(frame))
		}
	}
	bye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	_ = conn.WriteControl(websocket.CloseMessage, bye, time.Now().Add(time.Second))
	return nil
}

// discardMessages reads until the client goes, which answers its pings and notices its end.
func discardMessages(conn *websocket.Conn, gone func()) {
	defer gone()
	conn.SetReadLimit(64 << 10)
	for {
		if _, _, err := conn.NextReader(); err != nil {
			return
		}
	}
}
