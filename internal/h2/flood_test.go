package h2_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

func quiet(http.ResponseWriter, *http.Request) {}

// patient answers when the client has given up.
func patient(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func TestRequestsThatMakeNoSense(t *testing.T) {
	w := serve(t, bounds(), true, quiet)
	for name, h := range map[string][]string{
		"a connection's header":   {"connection", "close"},
		"te":                      {"te", "gzip"},
		"upper case":              {"X-Up", "a"},
		"a bad value":             {"x", "a\nb"},
		"a late pseudo header":    {"x", "a", ":path", "/b"},
		"an unknown pseudo":       {":protocol", "websocket"},
		"a length without a body": {"content-length", "3"},
		"no length":               {"content-length", "three"},
		"two lengths":             {"content-length", "0", "content-length", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.raw()
			r.ask(1, true, "GET", h...)
			t.Log(name)
			r.reset(1, http2.ErrCodeProtocol)
			r.ask(3, true, "GET") // the connection goes on
			r.await(name, func(f http2.Frame) bool {
				x, ok := f.(*http2.MetaHeadersFrame)
				return ok && x.StreamID == 3 && x.PseudoValue("status") == "200"
			})
		})
	}
}

// More streams than the server allows are refused, and can be tried again.
func TestTooManyStreams(t *testing.T) {
	cfg := bounds()
	cfg.Streams = 3
	w := serve(t, cfg, true, patient)
	r := w.raw()
	for id := uint32(1); id <= 7; id += 2 {
		r.ask(id, true, "GET")
	}
	r.reset(7, http2.ErrCodeRefusedStream)
}

// Headers longer than allowed have an answer; without end they end the connection.
func TestLongHeaders(t *testing.T) {
	w := serve(t, bounds(), true, quiet)
	r := w.raw()
	p := r.block("GET", "x", strings.Repeat("a", 14<<10), "y", strings.Repeat("b", 14<<10))
	first := http2.HeadersFrameParam{StreamID: 1, EndStream: true, BlockFragment: p[:8<<10]}
	r.must(r.WriteHeaders(first))
	for p = p[8<<10:]; len(p) > 8<<10; p = p[8<<10:] {
		r.must(r.WriteContinuation(1, false, p[:8<<10]))
	}
	r.must(r.WriteContinuation(1, true, p))
	r.await("an answer", func(f http2.Frame) bool {
		x, ok := f.(*http2.MetaHeadersFrame)
		return ok && x.PseudoValue("status") == "431"
	})

	r = w.raw()
	first = http2.HeadersFrameParam{StreamID: 1, EndStream: true, BlockFragment: r.block("GET")}
	r.must(r.WriteHeaders(first))
	more := r.block("GET", "x", strings.Repeat("a", 10<<10))
	go func() {
		for range 1 << 16 {
			if r.WriteContinuation(1, false, more) != nil {
				return
			}
		}
	}()
	r.refused(http2.ErrCodeProtocol)
}

// Who begins requests only to cancel them is sent away.
func TestRapidReset(t *testing.T) {
	w := serve(t, bounds(), true, patient)
	r := w.raw()
	go func() {
		for id := uint32(1); id < 1<<20; id += 2 {
			end := http2.HeadersFrameParam{StreamID: id, EndStream: true, EndHeaders: true, BlockFragment: r.block("GET")}
			if r.WriteHeaders(end) != nil || r.WriteRSTStream(id, http2.ErrCodeCancel) != nil {
				return
			}
		}
	}()
	r.refused(http2.ErrCodeEnhanceYourCalm)
}

// Who asks for answers and takes none loses the connection.
func TestFloods(t *testing.T) {
	for name, f := range map[string]func(*http2.Framer) error{
		"ping":     func(r *http2.Framer) error { return r.WritePing(false, [8]byte{}) },
		"settings": func(r *http2.Framer) error { return r.WriteSettings() },
		"errors": func(r *http2.Framer) error {
			return r.WriteRawFrame(http2.FramePriority, 0, 1, []byte{0, 0, 0, 1, 0})
		},
	} {
		t.Run(name, func(t *testing.T) {
			var many bytes.Buffer
			for fr := http2.NewFramer(&many, nil); many.Len() < 32<<10; {
				_ = f(fr)
			}
			both(t, func(t *testing.T, lined bool) {
				r := serve(t, bounds(), lined, quiet).raw()
				for range 1 << 16 {
					if _, err := r.Write(many.Bytes()); err != nil {
						return
					}
				}
				t.Error("the server takes all of it")
			})
		})
	}
}

func TestWindows(t *testing.T) {
	w := serve(t, bounds(), true, patient)
	r := w.raw()
	r.ask(1, false, "POST")
	go func() { // more than the stream may
		for range 100 {
			_ = r.WriteData(1, false, make([]byte, 16<<10))
		}
	}()
	r.reset(1, http2.ErrCodeFlowControl)

	wide := w.raw()
	wide.ask(1, false, "POST")
	wide.must(wide.WriteWindowUpdate(1, 1<<31-1))
	wide.reset(1, http2.ErrCodeFlowControl)
	wide.must(wide.WriteWindowUpdate(0, 1<<31-1))
	wide.refused(http2.ErrCodeFlowControl)
}

// A body that is longer or shorter than announced is no request.
func TestLengths(t *testing.T) {
	w := serve(t, bounds(), true, func(_ http.ResponseWriter, r *http.Request) {
		if b, err := io.ReadAll(r.Body); err == nil {
			t.Errorf("read %d bytes", len(b))
		}
	})
	r := w.raw()
	r.ask(1, false, "POST", "content-length", "3")
	r.must(r.WriteData(1, false, []byte("four")))
	r.reset(1, http2.ErrCodeProtocol)
	r.ask(3, false, "POST", "content-length", "3")
	r.must(r.WriteData(3, true, []byte("ab")))
	r.reset(3, http2.ErrCodeProtocol)
}

// A client that says nothing is asked, and one that does not answer is gone. One without requests is sent home.
func TestSilence(t *testing.T) {
	cfg := bounds()
	cfg.Ping, cfg.Pong, cfg.Idle = 10*time.Millisecond, 10*time.Millisecond, time.Hour
	w := serve(t, cfg, true, patient)
	r := w.raw()
	r.ask(1, true, "GET")
	r.await("a ping", func(f http2.Frame) bool {
		p, ok := f.(*http2.PingFrame)
		return ok && !p.IsAck()
	})
	within(t, "the connection", func() { _, _ = io.Copy(io.Discard, r.Conn) })

	cfg.Ping, cfg.Idle = time.Hour, 10*time.Millisecond
	w = serve(t, cfg, true, quiet)
	w.raw().refused(http2.ErrCodeNo)
}
