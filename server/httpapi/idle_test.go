package httpapi_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/kloop-dev/kloop/internal/pipe"
	"github.com/kloop-dev/kloop/server/httpapi"
)

// quietly has the world served with the bounds that the server has, in simulated time, and returns what dials it.
func quietly(t *testing.T) func(context.Context, string, string) (net.Conn, error) {
	dial, _ := quietlyEnded(t)
	return dial
}

// A toldConn tells when it is closed.
type toldConn struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (c *toldConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// quietlyEnded is quietly, and says when the server ends its connection to the agent.
func quietlyEnded(t *testing.T) (api func(context.Context, string, string) (net.Conn, error), ended chan struct{}) {
	ended = make(chan struct{})
	node, front := pipe.Listen(), pipe.Listen()
	a := &agent{asked: make(chan string, 10)}
	a.Server = httptest.NewUnstartedServer(a.mux(5 * time.Hour))
	a.Listener.Close()
	a.Listener = node
	a.Start()
	a.URL = "http://agent"
	a.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := node.Dial(ctx, network, addr)
		return &toldConn{Conn: conn, closed: ended}, err
	}
	w := newWorld(t, func(c *httpapi.Config) { c.Nodes = a })
	w.runsPods()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.handler.Serve(ctx, front, nil) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		a.Close()
	})
	return front.Dial, ended
}

// TestExecWithoutClient: an exec over WebSocket ends when its client is gone, or takes nothing, whatever the process does.
func TestExecWithoutClient(t *testing.T) {
	for _, tt := range []struct {
		name, query string
		client      func(*websocket.Conn) error
	}{
		{"it takes no output", "command=flood&stdout=true", func(*websocket.Conn) error { return nil }},
		{"it is gone, and its input is not read", "command=idle&stdin=true&stdout=true", func(c *websocket.Conn) error {
			go func() {
				for c.WriteMessage(websocket.BinaryMessage, make([]byte, 1<<19)) == nil { // until the buffers between here and there are full
				}
			}()
			synctest.Wait()
			return c.NetConn().Close()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dial, ended := quietlyEnded(t)
				d := websocket.Dialer{NetDialContext: dial, Subprotocols: []string{"v5.channel.k8s.io"}}
				conn, _, err := d.DialContext(t.Context(), "ws://api/api/v1/namespaces/ns/pods/p/exec?"+tt.query, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if err := tt.client(conn); err != nil {
					t.Fatal(err)
				}
				select {
				case <-ended:
				case <-time.After(time.Hour):
					t.Error("the process still has its streams")
				}
				conn.Close()
				time.Sleep(5 * time.Hour) // the process ends
			})
		})
	}
}

// A command that says nothing for hours is not cut off, by either protocol: bounds of idle connections are not for streams.
func TestExecMayBeIdle(t *testing.T) {
	const path = "/api/v1/namespaces/ns/pods/p/exec?command=idle&stdout=true&stderr=false"
	t.Run("websocket", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := websocket.Dialer{NetDialContext: quietly(t), Subprotocols: []string{"v5.channel.k8s.io"}}
			conn, _, err := d.DialContext(t.Context(), "ws://api"+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, got, err := conn.ReadMessage()
			if err != nil || string(got) != "\x01awake" {
				t.Errorf("%q, %v", got, err)
			}
		})
	})
	t.Run("spdy", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			up, err := spdy.NewRoundTripperWithConfig(spdy.RoundTripperConfig{UpgradeTransport: &http.Transport{DialContext: quietly(t)}})
			if err != nil {
				t.Fatal(err)
			}
			r, err := http.NewRequestWithContext(t.Context(), "POST", "http://api"+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set(httpstream.HeaderProtocolVersion, "v4.channel.k8s.io")
			res, err := up.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			conn, err := up.NewConnection(res)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			var out httpstream.Stream
			for _, kind := range []string{corev1.StreamTypeError, corev1.StreamTypeStdout} {
				if out, err = conn.CreateStream(http.Header{http.CanonicalHeaderKey(corev1.StreamType): {kind}}); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := io.ReadAll(out); err != nil || string(got) != "awake" {
				t.Errorf("%q, %v", got, err)
			}
		})
	})
}
