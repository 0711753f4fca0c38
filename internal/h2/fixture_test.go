package h2_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/kloop-dev/kloop/internal/h2"
)

// bounds are those of a test's server, before it changes some.
func bounds() h2.Config {
	return h2.Config{Streams: 100, Header: 16 << 10, StreamWindow: 128 << 10, ConnWindow: 256 << 10,
		Ping: time.Minute, Pong: time.Minute, Idle: time.Minute, Write: time.Minute}
}

// certificate borrows that of a test server.
var certificate = sync.OnceValue(func() tls.Certificate {
	srv := httptest.NewUnstartedServer(nil)
	srv.StartTLS()
	defer srv.Close()
	return srv.TLS.Certificates[0]
})

// A world is a server and where it listens.
type world struct {
	t    testing.TB
	srv  *http.Server
	addr string
}

// serve serves the handler until the test ends. Connections are lines if lined says so.
func serve(t testing.TB, cfg h2.Config, lined bool, h http.HandlerFunc) *world {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h, TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate()},
		NextProtos: []string{"h2", "http/1.1"}}}
	s := h2.Attach(srv, cfg)
	w := &world{t, srv, l.Addr().String()}
	if lined {
		l = lineListener{l}
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.ServeTLS(l, "", "") }()
	t.Cleanup(func() { srv.Close(); s.Close(); <-done })
	return w
}

// both runs a test on connections that are lines and on others.
func both(t *testing.T, f func(t *testing.T, lined bool)) {
	t.Run("line", func(t *testing.T) { f(t, true) })
	t.Run("plain", func(t *testing.T) { f(t, false) })
}

// client returns a client of Go's with connections of its own.
func (w *world) client() *http.Client {
	tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true,
		ExpectContinueTimeout: time.Hour}
	w.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// send sends a request, whose answer the caller reads.
func (w *world) send(c *http.Client, method, path string, body io.Reader, h ...string) *http.Response {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, "https://"+w.addr+path, body)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i+1 < len(h); i += 2 {
		r.Header.Set(h[i], h[i+1])
	}
	resp, err := c.Do(r)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	w.t.Cleanup(func() { resp.Body.Close() })
	if resp.ProtoMajor != 2 {
		w.t.Fatalf("%s", resp.Proto)
	}
	return resp
}

// within runs f, which must end.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	until(t, what, done)
}

func until(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(5 * time.Minute):
		t.Fatalf("%s does not end", what)
	}
}

// A raw is a client that says what it likes.
type raw struct {
	t testing.TB
	net.Conn
	*http2.Framer
	enc  *hpack.Encoder
	head bytes.Buffer
}

// raw connects and begins with the settings.
func (w *world) raw(settings ...http2.Setting) *raw {
	w.t.Helper()
	c, err := tls.Dial("tcp", w.addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(5 * time.Minute))
	r := &raw{t: w.t, Conn: c, Framer: http2.NewFramer(c, c)}
	r.enc = hpack.NewEncoder(&r.head)
	r.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		w.t.Fatal(err)
	}
	r.must(r.WriteSettings(settings...))
	return r
}

func (r *raw) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// block encodes headers of a request, beside those that all have.
func (r *raw) block(method string, more ...string) []byte {
	r.head.Reset()
	all := append([]string{":method", method, ":path", "/", ":scheme", "https", ":authority", "x"}, more...)
	for i := 0; i+1 < len(all); i += 2 {
		r.must(r.enc.WriteField(hpack.HeaderField{Name: all[i], Value: all[i+1]}))
	}
	return r.head.Bytes()
}

// ask begins a stream; end says that it has no body.
func (r *raw) ask(id uint32, end bool, method string, more ...string) {
	r.t.Helper()
	r.must(r.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndStream: end, EndHeaders: true,
		BlockFragment: r.block(method, more...)}))
}

// await reads until the frame comes that is wanted. It answers nothing.
func (r *raw) await(what string, is func(http2.Frame) bool) {
	r.t.Helper()
	for range 1 << 20 {
		f, err := r.ReadFrame()
		if err != nil {
			r.t.Fatalf("%s: %v", what, err)
		}
		if is(f) {
			return
		}
	}
	r.t.Fatalf("%s: never", what)
}

// refused reads until the server says why it ends the connection, or just ends it.
func (r *raw) refused(code http2.ErrCode) {
	r.t.Helper()
	for range 1 << 20 {
		f, err := r.ReadFrame()
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			r.t.Fatal("the connection goes on")
		}
		if err != nil {
			return
		}
		if g, ok := f.(*http2.GoAwayFrame); ok {
			if g.ErrCode != code {
				r.t.Fatalf("refused with %v, want %v", g.ErrCode, code)
			}
			return
		}
	}
}

// reset reads until the stream is reset.
func (r *raw) reset(id uint32, code http2.ErrCode) {
	r.t.Helper()
	r.await("reset", func(f http2.Frame) bool {
		x, ok := f.(*http2.RSTStreamFrame)
		if ok && x.StreamID == id && x.ErrCode != code {
			r.t.Fatalf("reset with %v, want %v", x.ErrCode, code)
		}
		return ok && x.StreamID == id
	})
}

// lineListener makes lines that never take anything at once, which is hard on what writes to them.
type lineListener struct{ net.Listener }

func (l lineListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &line{Conn: c}, err
}

type line struct {
	net.Conn
	mu   sync.Mutex
	soft bool
	kept []byte
	err  error
}

func (l *line) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.soft {
		return l.Conn.Write(b)
	}
	l.kept = append(l.kept, b...)
	return len(b), nil
}

func (l *line) Put(write func() error) (<-chan struct{}, error) {
	l.mu.Lock()
	l.soft = true
	l.mu.Unlock()
	err := write()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.soft = false
	b := l.kept
	l.kept = nil
	taken := make(chan struct{})
	go func() {
		defer close(taken)
		_, err := l.Conn.Write(b)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.err = err
	}()
	return taken, err
}

func (l *line) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// wait waits for the context of a request.
func wait(t *testing.T, what string, ctx context.Context) {
	t.Helper()
	until(t, what, ctx.Done())
}
