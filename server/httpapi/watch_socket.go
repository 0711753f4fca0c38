package httpapi

import (
	"context"
	"errors"
	"time"

	"github.com/gorilla/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/server/httpapi/reply"
	"github.com/kloop-dev/kloop/server/httpapi/stream"
)

// watchSocket streams a watch as one WebSocket message per event. A watch that can't begin is an ordinary answer: the
// connection becomes a WebSocket when the watch stands.
func (c *request) watchSocket(req *server.Request, opts *metav1.ListOptions, f framer) error {
	ctx, cancel := context.WithCancel(c.r.Context())
	defer cancel()
	ws := &watchSocket{c: c, cancel: cancel, kind: websocket.TextMessage}
	if c.acc.Format == reply.Proto {
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
	case err == nil || errors.Is(err, errUntellable) || ctx.Err() != nil || ws.refused:
		return nil
	case ws.conn == nil && !apierrors.IsResourceExpired(err) || ws.open() != nil:
		return err
	}
	if frame, ferr := f.failure(reply.StatusOf(err)); ferr == nil {
		_ = ws.say(frame)
	}
	return nil
}

// A watchSocket is the connection of a watch over WebSocket, once it is one.
type watchSocket struct {
	c       *request
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
	conn, err := stream.Upgrader(asked...).Upgrade(ws.c.w, ws.c.r, nil)
	if err != nil {
		ws.refused = true
		return err
	}
	ws.conn = conn
	go stream.Discard(conn, ws.cancel)
	return nil
}

func (ws *watchSocket) say(b []byte) error {
	_ = ws.conn.SetWriteDeadline(time.Now().Add(ws.c.s.cfg.WriteStall))
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
