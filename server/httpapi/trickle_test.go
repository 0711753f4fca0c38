package httpapi_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A body that does not come is answered when the request's time is up, over HTTP/1 and HTTP/2, whatever reads it.
func TestTrickle(t *testing.T) {
	w := newWorld(t)
	w.configMap("there", "v")
	at := w.front()
	for proto, tr := range map[string]*http.Transport{"HTTP/2.0": transport(t, true), "HTTP/1.1": transport(t, false)} {
		t.Run(proto, func(t *testing.T) {
			client := &http.Client{Transport: tr}
			for _, q := range []struct{ method, path, typ string }{
				{"POST", "/api/v1/namespaces/ns/configmaps", "application/json"},
				{"PUT", "/api/v1/namespaces/ns/configmaps/there", "application/yaml"},
				{"PATCH", "/api/v1/namespaces/ns/configmaps/there", "application/merge-patch+json"},
				{"DELETE", "/api/v1/namespaces/ns/configmaps/there", "application/json"},
			} {
				in, out := io.Pipe()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				req, err := http.NewRequestWithContext(ctx, q.method, at+q.path+"?timeout=300ms", in)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", q.typ)
				go func() { _, _ = out.Write([]byte(`{"metadata":`)) }()
				res, err := client.Do(req)
				if err != nil {
					t.Fatalf("%s %s: %v", proto, q.method, err)
				}
				text, _ := io.ReadAll(res.Body)
				res.Body.Close()
				out.Close()
				cancel()
				if res.StatusCode != http.StatusGatewayTimeout || !strings.Contains(string(text), `"reason":"Timeout"`) || res.Proto != proto {
					t.Errorf("%s %s: %s %d: %s", proto, q.method, res.Proto, res.StatusCode, text)
				}
			}
			client.CloseIdleConnections()
		})
	}
	w.must("GET", "/api/v1/namespaces/ns/configmaps/there", "", 200)
}

// A group without a name is none, and no other way to the core group.
func TestEmptyGroup(t *testing.T) {
	w := newWorld(t)
	w.configMap("there", "v")
	for _, path := range []string{"/apis//v1", "/apis//v1/configmaps", "/apis//v1/namespaces/ns/configmaps/there"} {
		for _, user := range []string{"", "somebody"} {
			if got := w.do("GET", path, "", "Test-User", user); got.code != 404 && (user == "" || got.code != 403) {
				t.Errorf("%s as %q: %d %.200s", path, user, got.code, got.body)
			}
		}
	}
}
