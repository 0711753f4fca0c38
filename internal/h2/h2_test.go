package h2_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/kloop-dev/kloop/internal/h2"
)

// answerer answers in many ways.
func answerer(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hello":
			fmt.Fprintf(w, "hello %s %s %s", r.Method, r.Proto, r.URL.RawQuery)
		case "/none":
			w.WriteHeader(http.StatusNoContent)
			if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrBodyNotAllowed) {
				t.Errorf("a body where there is none: %v", err)
			}
		case "/nothing":
		case "/flushed":
			w.WriteHeader(http.StatusTeapot)
			w.(http.Flusher).Flush()
			io.WriteString(w, "later")
		case "/long":
			w.Header().Set("Content-Length", "3")
			if _, err := w.Write([]byte("four")); !errors.Is(err, http.ErrContentLength) {
				t.Errorf("more than announced: %v", err)
			}
			io.WriteString(w, "") // and then too little
		case "/early":
			w.Header().Set("Link", "</x>")
			w.WriteHeader(http.StatusEarlyHints)
			io.WriteString(w, "late")
		}
	}
}

func TestAnswers(t *testing.T) {
	both(t, func(t *testing.T, lined bool) {
		w := serve(t, bounds(), lined, answerer(t))
		c := w.client()
		for _, q := range []struct {
			method, path, body string
			code               int
			length             int64
		}{
			{"GET", "/hello?a=b", "hello GET HTTP/2.0 a=b", 200, 22},
			{"HEAD", "/hello", "", 200, -1},
			{"GET", "/none", "", 204, 0},
			{"GET", "/nothing", "", 200, 0},
			{"GET", "/flushed", "later", 418, -1},
			{"GET", "/early", "late", 200, 4},
			{"OPTIONS", "*", "", 200, 0},
		} {
			resp := w.send(c, q.method, strings.Replace(q.path, "*", "/", 1), nil)
			text, err := io.ReadAll(resp.Body)
			if err != nil || string(text) != q.body || resp.StatusCode != q.code || resp.ContentLength != q.length {
				t.Errorf("%s %s: %d %q of %d, %v", q.method, q.path, resp.StatusCode, text, resp.ContentLength, err)
			}
			typ := resp.Header.Get("Content-Type") // told before the body there is none to tell it by
			if (typ == "text/plain; charset=utf-8") != (q.length > 0) || resp.Header.Get("Date") == "" {
				t.Errorf("%s: %v", q.path, resp.Header)
			}
		}
		resp, err := c.Get("https://" + w.addr + "/long")
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			resp.Body.Close()
		}
		if err == nil {
			t.Error("a part of an answer looks whole")
		}
	})
}

// Bodies much longer than all windows go both ways at once, on many streams of one connection.
func TestEcho(t *testing.T) {
	both(t, func(t *testing.T, lined bool) {
		w := serve(t, bounds(), lined, func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(w, r.Body); err != nil {
				t.Errorf("copy: %v", err)
			}
		})
		c := w.client()
		within(t, "the echo", func() {
			var all sync.WaitGroup
			for i := range 20 {
				all.Go(func() {
					want := bytes.Repeat([]byte{byte(i), 1, 2, 3, 4, 5, 6}, 100_000)
					resp := w.send(c, "POST", "/", bytes.NewReader(want))
					got, err := io.ReadAll(resp.Body)
					if err != nil || !bytes.Equal(got, want) {
						t.Errorf("%d: %d bytes of %d, %v", i, len(got), len(want), err)
					}
				})
			}
			all.Wait()
		})
	})
}

func TestTrailers(t *testing.T) {
	w := serve(t, bounds(), true, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		w.Header().Set("Trailer", "Known")
		fmt.Fprintf(w, "%s %s", text, r.Trailer.Get("Asked"))
		w.Header().Set("Known", "one")
		w.Header().Set(http.TrailerPrefix+"Late", "two")
	})
	r, _ := http.NewRequestWithContext(t.Context(), "POST", "https://"+w.addr, io.MultiReader(strings.NewReader("body")))
	r.Trailer = http.Header{"Asked": {"three"}}
	resp, err := w.client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || string(text) != "body three" {
		t.Errorf("%q, %v", text, err)
	}
	if resp.Trailer.Get("Known") != "one" || resp.Trailer.Get("Late") != "two" {
		t.Errorf("trailers %v", resp.Trailer)
	}
}

// A client that asks first sends its body when the handler wants it, and not when it doesn't.
func TestContinue(t *testing.T) {
	w := serve(t, bounds(), true, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wanted" {
			io.Copy(w, r.Body)
			return
		}
		w.WriteHeader(http.StatusForbidden)
	})
	c := w.client()
	resp := w.send(c, "POST", "/wanted", strings.NewReader("body"), "Expect", "100-continue")
	if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "body" {
		t.Errorf("%q, %v", text, err)
	}
	resp = w.send(c, "POST", "/unwanted", strings.NewReader("body"), "Expect", "100-continue")
	if _, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusForbidden {
		t.Errorf("%s, %v", resp.Status, err)
	}
}

// Who is answered before the body has come has a whole answer: the stream is reset only if much of the body is to come, or none at all.
func TestAnsweredBeforeTheBody(t *testing.T) {
	both(t, func(t *testing.T, lined bool) {
		w := serve(t, bounds(), lined, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
		for i, tt := range []struct {
			name   string
			head   []string
			resets bool
		}{
			{"short body", []string{"content-length", "2"}, false},
			{"body that waits for 100", []string{"content-length", "2", "expect", "100-continue"}, true},
			{"long body", []string{"content-length", "1000000"}, true},
			{"body of unknown length", nil, true},
		} {
			r := w.raw()
			r.ask(1, false, "POST", tt.head...)
			reset := false
			note := func(f http2.Frame) {
				if x, ok := f.(*http2.RSTStreamFrame); ok {
					if reset = true; x.ErrCode != http2.ErrCodeNo {
						t.Errorf("%s: %d: reset with %v", tt.name, i, x.ErrCode)
					}
				}
			}
			r.await("the answer", func(f http2.Frame) bool {
				h, ok := f.(*http2.MetaHeadersFrame)
				return ok && h.StreamEnded()
			})
			if !tt.resets {
				r.must(r.WriteData(1, true, []byte("{}")))
			}
			r.must(r.WritePing(false, [8]byte{1}))
			r.await("the ping's answer", func(f http2.Frame) bool {
				note(f)
				p, ok := f.(*http2.PingFrame)
				return ok && p.IsAck()
			})
			if reset != tt.resets {
				t.Errorf("%s: %d: reset: %v", tt.name, i, reset)
			}
			r.ask(3, true, "GET")
			r.await("the next answer", func(f http2.Frame) bool {
				h, ok := f.(*http2.MetaHeadersFrame)
				return ok && h.StreamID == 3
			})
		}
	})
}

// A handler that panics breaks its stream, and no other.
func TestPanic(t *testing.T) {
	release := make(chan struct{})
	w := serve(t, bounds(), true, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/panic" {
			io.WriteString(w, "half an answer")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		w.(http.Flusher).Flush()
		<-release
		io.WriteString(w, "whole")
	})
	c := w.client()
	whole := w.send(c, "GET", "/", nil)
	resp := w.send(c, "GET", "/panic", nil)
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("half an answer looks whole")
	}
	close(release)
	if text, err := io.ReadAll(whole.Body); err != nil || string(text) != "whole" {
		t.Errorf("%q, %v", text, err)
	}
}

// The context of a request ends when the client gives up or is gone.
func TestGone(t *testing.T) {
	both(t, func(t *testing.T, lined bool) {
		contexts := make(chan context.Context, 1)
		w := serve(t, bounds(), lined, func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			contexts <- r.Context()
			<-r.Context().Done()
			if _, err := io.WriteString(w, strings.Repeat("x", 1<<20)); err == nil {
				t.Error("wrote to a stream that has ended")
			}
		})
		resp := w.send(w.client(), "GET", "/", nil)
		resp.Body.Close()
		wait(t, "the request that was cancelled", <-contexts)
		r := w.raw()
		r.ask(1, true, "GET")
		ctx := <-contexts
		r.Close()
		wait(t, "the request of a client that is gone", ctx)
	})
}

func TestDeadlines(t *testing.T) {
	both(t, func(t *testing.T, lined bool) {
		errs := make(chan error, 1)
		w := serve(t, bounds(), lined, func(w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			if r.Method == "POST" {
				_ = rc.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
				_, err := io.ReadAll(r.Body)
				errs <- err
				return
			}
			guard := time.AfterFunc(10*time.Millisecond, func() { _ = rc.SetWriteDeadline(time.Unix(1, 0)) })
			defer guard.Stop()
			var err error
			for i := 0; i < 1<<10 && err == nil; i++ {
				_, err = w.Write(make([]byte, 1<<20))
			}
			errs <- err
		})
		r := w.raw()
		r.ask(1, false, "POST")
		r.ask(3, true, "GET") // and takes no more than the first window
		for range 2 {
			within(t, "the handler", func() {
				if err := <-errs; !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%v, not the deadline", err)
				}
			})
		}
	})
}

// Shutdown lets requests end that are under way, and takes no more.
func TestShutdown(t *testing.T) {
	both(t, func(t *testing.T, lined bool) {
		began, release := make(chan struct{}), make(chan struct{})
		w := serve(t, bounds(), lined, func(w http.ResponseWriter, _ *http.Request) {
			close(began)
			<-release
			io.WriteString(w, "done")
		})
		answered := make(chan *http.Response, 1)
		go func() { answered <- w.send(w.client(), "GET", "/", nil) }()
		until(t, "the beginning", began)
		down := make(chan error, 1)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		go func() { down <- w.srv.Shutdown(ctx) }()
		close(release)
		resp := <-answered
		if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "done" {
			t.Errorf("%q, %v", text, err)
		}
		if err := <-down; err != nil {
			t.Errorf("shut down: %v", err)
		}
	})
}

// Close ends requests.
func TestClose(t *testing.T) {
	contexts := make(chan context.Context, 1)
	w := serve(t, bounds(), true, func(_ http.ResponseWriter, r *http.Request) {
		contexts <- r.Context()
		<-r.Context().Done()
	})
	r := w.raw()
	r.ask(1, true, "GET")
	ctx := <-contexts
	w.srv.Close()
	wait(t, "the request", ctx)
}

// In the clear, a client that knows begins with HTTP/2, and others with HTTP/1.1: both are answered on one address.
func TestInTheClear(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %t %v", r.Proto, text, r.TLS == nil, err)
	})}
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetUnencryptedHTTP2(true)
	s := h2.Attach(srv, bounds())
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(l) }()
	t.Cleanup(func() { srv.Close(); s.Close(); <-done })
	known := &http2.Transport{AllowHTTP: true, DialTLSContext: func(ctx context.Context, network, addr string,
		_ *tls.Config) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
	defer known.CloseIdleConnections()
	long := strings.Repeat("x", 300<<10) // more than a window
	for rt, want := range map[http.RoundTripper]string{known: "HTTP/2.0", &http.Transport{DisableKeepAlives: true}: "HTTP/1.1"} {
		for range 2 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+l.Addr().String(), strings.NewReader(long))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := rt.RoundTrip(req)
			if err != nil {
				t.Fatalf("%s: %v", want, err)
			}
			text, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if string(text) != want+" "+long+" true <nil>" || err != nil {
				t.Errorf("%s: %.40s…, %v", want, text, err)
			}
		}
	}
}
