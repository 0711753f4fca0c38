package httpapi_test

import (
	"io"
	"net/http"
	"net/http/httptrace"
	"testing"
)

// Who has not said who he is, or lies, gets one answer for each connection of HTTP/2. All others keep theirs.
func TestStrangersKeepNoConnection(t *testing.T) {
	w := newWorld(t)
	at, client := w.front(), &http.Client{Transport: transport(t, true)}
	for user, want := range map[string]bool{"root": true, "nobody": false, "liar": false} {
		t.Run(user, func(t *testing.T) {
			client.CloseIdleConnections()
			used := map[string]bool{}
			for range 3 {
				trace := &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { used[c.Conn.LocalAddr().String()] = true }}
				req, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodGet, at+"/healthz", nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Test-User", user)
				res, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, res.Body); err != nil || res.ProtoMajor != 2 {
					t.Fatalf("%s: %s, %v", user, res.Proto, err)
				}
				res.Body.Close()
			}
			if got := len(used) == 1; got != want {
				t.Errorf("%s: three requests take %d connections", user, len(used))
			}
		})
	}
}
