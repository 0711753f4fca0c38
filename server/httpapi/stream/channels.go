package stream

import (
	"context"
	"encoding/base64"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// The protocols of exec and attach over WebSocket. The first byte of a message names its channel; in the
// base64 ones it is a digit and the rest is encoded. v5 can close a channel.
const (
	protocolV1    = "channel.k8s.io"
	protocolV4    = "v4.channel.k8s.io"
	protocolV5    = "v5.channel.k8s.io"
	protocolV1b64 = "base64.channel.k8s.io"
	protocolV4b64 = "v4.base64.channel.k8s.io"
)

// The channels of exec and attach.
const (
	chanStdin = iota
	chanStdout
	chanStderr
	chanError
	chanResize
	chanClose = 255 // v5: the next byte names a channel that the client has finished
)

// channels multiplexes the streams of a process over a WebSocket.
type channels struct {
	ws    *websocket.Conn
	stall time.Duration
	text  bool // base64
	first bool // the first version of the protocol, which has no status

	mu sync.Mutex // one writer at a time
	in [chanResize + 1]struct {
		r *io.PipeReader
		w *io.PipeWriter
	}
}

func newChannels(ws *websocket.Conn, stall time.Duration) *channels {
	c := &channels{ws: ws, stall: stall, text: strings.Contains(ws.Subprotocol(), "base64"),
		first: ws.Subprotocol() == protocolV1 || ws.Subprotocol() == protocolV1b64 || ws.Subprotocol() == ""}
	for _, at := range []int{chanStdin, chanResize} {
		c.in[at].r, c.in[at].w = io.Pipe()
	}
	return c
}

// read takes messages apart until the client is gone; then the inputs end.
func (c *channels) read() {
	defer func() {
		for _, at := range []int{chanStdin, chanResize} {
			_ = c.in[at].w.Close()
		}
	}()
	c.ws.SetReadLimit(1 << 20)
	for {
		_, b, err := c.ws.ReadMessage()
		if err != nil {
			return
		}
		if len(b) == 0 {
			continue
		}
		at, data := int(b[0]), b[1:]
		switch {
		case at == chanClose && c.ws.Subprotocol() == protocolV5:
			if len(data) == 1 && data[0] == chanStdin {
				_ = c.in[chanStdin].w.Close()
			}
			continue
		case c.text:
			at -= '0'
			if data, err = base64.StdEncoding.DecodeString(string(data)); err != nil {
				return
			}
		}
		if at == chanStdin || at == chanResize {
			_, _ = c.in[at].w.Write(data) // fails when the process no longer reads
		}
	}
}

// ping asks now and then whether the client is there, until it is not or ctx ends. While a process does not take its input nobody reads
// what the client says, and that it is gone neither.
func (c *channels) ping(ctx context.Context) {
	tick := time.NewTicker(c.stall)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if c.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(c.stall)) != nil {
			return
		}
	}
}

// stop lets the reader go on when nobody wants the input of a channel any more.
func (c *channels) stop(at int) { _ = c.in[at].r.Close() }

func (c *channels) write(at int, data []byte) error {
	kind, message := websocket.BinaryMessage, make([]byte, 1+len(data))
	if c.text {
		kind = websocket.TextMessage
		message = append([]byte{byte('0' + at)}, base64.StdEncoding.EncodeToString(data)...)
	} else {
		message[0] = byte(at)
		copy(message[1:], data)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.ws.SetWriteDeadline(time.Now().Add(c.stall))
	return c.ws.WriteMessage(kind, message)
}

// finish tells the client that all is said.
func (c *channels) finish() {
	bye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	_ = c.ws.WriteControl(websocket.CloseMessage, bye, time.Now().Add(time.Second))
	_ = c.ws.Close()
}

// to is a channel as a writer.
type to struct {
	c  *channels
	at int
}

func (t to) Write(b []byte) (int, error) {
	if err := t.c.write(t.at, b); err != nil {
		return 0, err
	}
	return len(b), nil
}
