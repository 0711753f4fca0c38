package webhook

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A webhook that sends the server elsewhere is not followed, whichever way the server is to ask: nothing reaches the other place.
func TestRedirects(t *testing.T) {
	var reached atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer other.Close()
	for _, code := range []int{301, 302, 303, 307, 308} {
		hook := httptest.NewTLSServer(http.RedirectHandler(other.URL+"/latest/meta-data", code))
		client, err := (&Caller{}).Client(Target{URL: hook.URL, CABundle: bundle(hook)})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := client.Post(t.Context(), []byte("secret"), 100); err == nil {
			t.Errorf("%d: %q is an answer", code, got)
		}
		conf := filepath.Join(t.TempDir(), "kubeconfig")
		text := strings.ReplaceAll(`{"kind":"Config","apiVersion":"v1","current-context":"c",
"contexts":[{"name":"c","context":{"cluster":"c"}}],
"clusters":[{"name":"c","cluster":{"server":"URL","insecure-skip-tls-verify":true}}]}`, "URL", hook.URL)
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Kubeconfigs().Open("the webhook", conf, time.Minute, Retries{})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.Send(t.Context(), []byte("secret")); err == nil {
			t.Errorf("%d: %q is an answer to a review", code, got)
		}
		hook.Close()
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("%d requests went where webhooks sent them", n)
	}
}

// A webhook whose router cleans its paths by a redirect, as that of Go does, is followed: it is the same server. One that redirects
// for ever is given up.
func TestRedirectsAtHome(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /paint", func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	mux.Handle("/again", http.RedirectHandler("/again", http.StatusTemporaryRedirect))
	hook := httptest.NewTLSServer(mux)
	defer hook.Close()
	for path, want := range map[string]string{"//paint": "review", "/again": ""} {
		t.Run(path, func(t *testing.T) {
			client, err := (&Caller{}).Client(Target{URL: hook.URL + path, CABundle: bundle(hook)})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := client.Post(t.Context(), []byte("review"), 100); string(got) != want || (err == nil) != (want != "") {
				t.Errorf("%s: %q, %v", path, got, err)
			}
		})
	}
}
