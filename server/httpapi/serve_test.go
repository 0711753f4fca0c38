package httpapi_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// certificate borrows the test server's: this package makes none of its own.
func certificate() tls.Certificate {
	srv := httptest.NewUnstartedServer(nil)
	srv.StartTLS()
	defer srv.Close()
	return srv.TLS.Certificates[0]
}

func TestServe(t *testing.T) {
	w := newWorld(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(limited(t))
	done := make(chan error, 1)
	go func() { done <- w.handler.Serve(ctx, l, &tls.Config{Certificates: []tls.Certificate{certificate()}}) }()
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: proto == "HTTP/2.0"}
		resp, err := (&http.Client{Transport: tr}).Get("https://" + l.Addr().String() + "/healthz")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		tr.CloseIdleConnections()
		if resp.Proto != proto || string(body) != "ok" {
			t.Errorf("%s: %s %q", proto, resp.Proto, body)
		}
	}
	tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	watch, err := (&http.Client{Transport: tr}).Get("https://" + l.Addr().String() + "/api/v1/nodes?watch=1")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.ReadAll(watch.Body); err != nil {
		t.Errorf("the watch ended with %v, not cleanly", err)
	}
	watch.Body.Close()
	tr.CloseIdleConnections()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("serve: %v", err)
		}
	case <-time.After(10 * time.Minute):
		t.Error("the server did not stop")
	}
}

// A client that takes nothing loses its watch; others do not wait for it.
func TestSlowWatcher(t *testing.T) {
	w := newWorld(t, func(c *configuration) { c.WriteStall = 50 * time.Millisecond })
	srv := w.serve()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.(*net.TCPConn).SetReadBuffer(4096)
	if _, err := conn.Write([]byte("GET /api/v1/configmaps?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	big := make([]byte, 1<<20)
	for i := range big {
		big[i] = 'x'
	}
	for i := range 20 { // more than the buffers between here and there hold
		w.configMap("big"+string(rune('a'+i)), string(big[:900<<10]))
	}
	deadline := time.Now().Add(10 * time.Minute)
	for gauge(w, "apiserver_registered_watchers") != 0 {
		if time.Now().After(deadline) {
			t.Fatal("the watch of a client that does not read goes on")
		}
		w.must("GET", "/api/v1/nodes", "", 200)
	}
}

// One goroutine writes to all watches; a client that takes nothing loses its watch, and holds up none of the others, not those on its own
// connection either.
func TestSlowWatcherAmongMany(t *testing.T) {
	for name, k := range map[string]struct{ http2, shared bool }{"HTTP/1.1": {}, "HTTP/2": {http2: true}, "shared": {true, true}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *configuration) { c.WriteStall = 500 * time.Millisecond })
			at, tr := w.front(), transport(t, k.http2)
			open := func() *bufio.Reader {
				if !k.shared {
					tr = transport(t, k.http2)
				}
				resp, err := (&http.Client{Transport: tr}).Get(at + "/api/v1/configmaps?watch=1")
				if err != nil || resp.StatusCode != 200 || (resp.ProtoMajor == 2) != k.http2 {
					t.Fatalf("%v, %v", resp, err)
				}
				t.Cleanup(func() { resp.Body.Close() })
				return bufio.NewReader(resp.Body)
			}
			open() // and never reads
			var readers []*bufio.Reader
			for range 5 {
				readers = append(readers, open())
			}
			data := strings.Repeat("x", 30<<10) // what can be offered
			for i := range 600 {                // more than the buffers between here and there hold
				name := fmt.Sprintf("c%03d", i)
				w.configMap(name, data)
				for _, r := range readers {
					text, err := r.ReadString('\n')
					if err != nil || !strings.HasPrefix(text, `{"type":"ADDED"`) || !strings.Contains(text, `"name":"`+name+`"`) {
						t.Fatalf("%s: %v, %.200s", name, err, text)
					}
				}
			}
			deadline := time.Now().Add(10 * time.Minute)
			for gauge(w, "apiserver_registered_watchers") != float64(len(readers)) {
				if time.Now().After(deadline) {
					t.Fatal("the watch of a client that does not read goes on")
				}
			}
		})
	}
}
