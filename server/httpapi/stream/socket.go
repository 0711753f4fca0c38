package stream

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/websocket"
)

// IsWebSocket says that the client wants to speak WebSocket.
func IsWebSocket(r *http.Request) bool { return upgrades(r, "websocket") }

func isSPDY(r *http.Request) bool { return upgrades(r, "spdy/3.1") }

func upgrades(r *http.Request, to string) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), to) &&
		strings.Contains(strings.ToLower(r.Header.Get("Connection")), "upgrade")
}

// Upgrader accepts every origin: callers are known by their credentials, which browsers do not send by themselves.
func Upgrader(protocols ...string) *websocket.Upgrader {
	return &websocket.Upgrader{HandshakeTimeout: 10 * time.Second, Subprotocols: protocols,
		CheckOrigin: func(*http.Request) bool { return true }}
}

// Discard reads until the client goes, which answers its pings and notices its end.
func Discard(conn *websocket.Conn, gone func()) {
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
func (c *connection) logSocket(from io.Reader) {
	conn, err := Upgrader(protocolBinary, protocolBase64).Upgrade(c.w, c.r, nil)
	if err != nil {
		return // the upgrader has answered
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(c.r.Context())
	defer cancel()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	go Discard(conn, cancel)
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

func (c *connection) sayLog(conn *websocket.Conn, b []byte) error {
	_ = conn.SetWriteDeadline(time.Now().Add(c.h.cfg.WriteStall))
	if conn.Subprotocol() == protocolBase64 {
		return conn.WriteMessage(websocket.TextMessage, []byte(base64.StdEncoding.EncodeToString(b)))
	}
	return conn.WriteMessage(websocket.BinaryMessage, b)
}
