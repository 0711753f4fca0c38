package httpapi

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// watchSocket streams a watch as one WebSocket message per event. A watch that can't begin is an ordinary answer: the
// connection becomes a WebSocket when the watch stands.
func (c *call) watchSocket(req *server.Request, opts *metav1.ListOptions, f framer) error {
	ctx, cancel := context.WithCancel(c.r.Context())
	defer cancel()
	ws := &watchSocket{c: c, cancel: cancel, kind: websocket.TextMessage}
	if c.acc.format == asProto {
		ws.kind = websocket.BinaryMessage
	}
	defer ws.close()
	err := c.ops().Watch(ctx, req, opts, func(events []server.Event) error {
		if err := ws.open(); err != nil {
			return err
		}
		for i := range events {
			frame, err := f.frame(ctx, nil, &events[i])
			if err != nil {
				return err
			}
			if err := ws.say(frame); err != nil {
				return err
			}
		}
		c.begun(opts, events)
		return nil
	})
	switch {
	case err == nil || ctx.Err() != nil || ws.refused:
		return nil
	case ws.conn == nil && !apierrors.IsResourceExpired(err) || ws.open() != nil:
		return err
	}
	if frame, ferr := f.failure(statusOf(err)); ferr == nil {
		_ = ws.say(frame)
	}
	return nil
}

// A watchSocket is the connection of a watch over WebSocket, once it is one.
type watchSocket struct {
	c       *call
	cancel  func() // the watch: there is nobody to tell more
	kind    int    // of messages
	conn    *websocket.Conn
	refused bool // the upgrader has answered
}

func (ws *watchSocket) open() error {
	if ws.conn != nil {
		return nil
	}
	asked := websocket.Subprotocols(ws.c.r)
	if len(asked) > 1 {
		asked = nil // upstream agrees to one, whatever it is
	}
	conn, err := upgrader(asked...).Upgrade(ws.c.w, ws.c.r, nil)
	if err != nil {
		ws.refused = true
		return err
	}
	ws.conn = conn
	go discardMessages(conn, ws.cancel)
	return nil
}

func (ws *watchSocket) say(b []byte) error {
	_ = ws.conn.SetWriteDeadline(time.Now().Add(ws.c.cfg.WriteStall))
	err := ws.conn.WriteMessage(ws.kind, b)
	if err != nil {
		ws.cancel()
	}
	return err
}

func (ws *watchSocket) close() {
	if ws.conn == nil {
		return
	}
	bye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	_ = ws.conn.WriteControl(websocket.CloseMessage, bye, time.Now().Add(time.Second))
	ws.conn.Close()
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

// The protocols of logs over WebSocket.
const (
	protocolBinary = "binary.k8s.io"
	protocolBase64 = "base64." + protocolBinary
)

// logSocket streams a log as messages, after an empty one that says that the stream has begun.
func (c *call) logSocket(from io.Reader) {
	conn, err := upgrader(protocolBinary, protocolBase64).Upgrade(c.w, c.r, nil)
	if err != nil {
		return // the upgrader has answered
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(c.r.Context())
	defer cancel()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	go discardMessages(conn, cancel)
	b := make([]byte, 4096)
	n := 0
	for err == nil {
		if err = c.sayLog(conn, b[:n]); err == nil {
			n, err = from.Read(b)
		}
	}
	if errors.Is(err, io.EOF) && (n == 0 || c.sayLog(conn, b[:n]) == nil) {
		bye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
		_ = conn.WriteControl(websocket.CloseMessage, bye, time.Now().Add(time.Second))
	}
}

func (c *call) sayLog(conn *websocket.Conn, b []byte) error {
	_ = conn.SetWriteDeadline(time.Now().Add(c.cfg.WriteStall))
	if conn.Subprotocol() == protocolBase64 {
		return conn.WriteMessage(websocket.TextMessage, []byte(base64.StdEncoding.EncodeToString(b)))
	}
	return conn.WriteMessage(websocket.BinaryMessage, b)
}
