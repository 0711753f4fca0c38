package webhook

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/webhook"
)

// server answers reviews with what answer returns: a code and the status as JSON.
type server struct {
	mu    sync.Mutex
	asked []string
}

func serve(t *testing.T, answer func(review map[string]any) (int, string)) (s *server, kubeconfig string) {
	t.Helper()
	s = &server{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.asked = append(s.asked, string(body))
		s.mu.Unlock()
		var review map[string]any
		_ = json.Unmarshal(body, &review)
		code, status := answer(review)
		w.WriteHeader(code)
		_, _ = io.WriteString(w, `{"status":`+status+`}`)
	}))
	t.Cleanup(srv.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: '" + srv.URL + "/ask'}}]\n" +
		"contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u}]\ncurrent-context: c\n"
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return s, kubeconfig
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

func TestTokens(t *testing.T) {
	_, kubeconfig := serve(t, func(r map[string]any) (int, string) {
		switch r["spec"].(map[string]any)["token"] {
		case "good":
			return 200, `{"authenticated":true,"user":{"username":"joe","uid":"1","groups":["g"],"extra":{"k":["v"]}}}`
		case "audience":
			return 201, `{"authenticated":true,"user":{"username":"joe"},"audiences":["api","x"]}`
		case "other audience":
			return 200, `{"authenticated":true,"user":{"username":"joe"},"audiences":["x"]}`
		case "wrong":
			return 200, `{"authenticated":false,"error":"revoked"}`
		case "forbidden":
			return 403, `{}`
		}
		return 200, `{}`
	})
	for _, version := range []string{"v1", "v1beta1"} {
		k, err := NewTokens(webhook.Kubeconfigs(), kubeconfig, version)
		if err != nil {
			t.Fatal(err)
		}
		for token, want := range map[string]string{"good": "joe", "audience": "joe", "other audience": "", "unknown": "",
			"wrong": "error", "forbidden": "error"} {
			u, granted, ok, err := k.Token(t.Context(), token, []string{"api", "y"})
			switch {
			case want == "error" && (ok || err == nil), want == "" && (ok || err != nil), want == "joe" && (!ok || err != nil || u.Name != "joe"):
				t.Errorf("%s: %+v %v %v", token, u, ok, err)
			case token == "good" && (u.Extra["k"][0] != "v" || u.Groups[0] != "g" || len(granted) != 2):
				t.Errorf("%+v %v", u, granted)
			case token == "audience" && (len(granted) != 1 || granted[0] != "api"):
				t.Errorf("audiences %v", granted)
			}
		}
	}
	if _, err := NewTokens(webhook.Kubeconfigs(), kubeconfig, "v2"); err == nil {
		t.Error("an unknown version")
	}
}

func TestAuthorizer(t *testing.T) {
	now := time.Now()
	s, kubeconfig := serve(t, func(r map[string]any) (int, string) {
		spec := r["spec"].(map[string]any)
		switch spec["user"] {
		case "allowed":
			return 200, `{"allowed":true,"reason":"because"}`
		case "denied":
			return 200, `{"allowed":false,"denied":true}`
		case "both":
			return 200, `{"allowed":true,"denied":true}`
		case "broken":
			return 400, `{}`
		}
		return 200, `{"allowed":false,"reason":"no"}`
	})
	cfg := Config{Name: "test", Ways: webhook.Kubeconfigs(), Kubeconfig: kubeconfig, Version: "v1",
		Timeout: time.Minute, AllowedTTL: time.Minute, RefusedTTL: time.Second,
		Conditions: []string{"has(request.resourceAttributes)", "request.resourceAttributes.namespace != 'kube-system'"},
		Now:        func() time.Time { return now }}
	a, err := NewAuthorizer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	at := func(user, ns string) *auth.Attributes {
		return &auth.Attributes{User: &auth.User{Name: user, Groups: []string{"g"}}, Verb: "list", Resource: "pods", Namespace: ns,
			LabelSelector: "a=b,c notin (x,y)", FieldSelector: "spec.nodeName=n"}
	}
	for _, c := range []struct {
		name  string
		at    *auth.Attributes
		want  auth.Decision
		fails bool
		asks  int
	}{
		{"allowed", at("allowed", "ns"), auth.Allow, false, 1},
		{"allowed, from the cache", at("allowed", "ns"), auth.Allow, false, 0},
		{"denied", at("denied", "ns"), auth.Deny, false, 1},
		{"no opinion", at("nobody", "ns"), auth.NoOpinion, false, 1},
		{"another namespace", at("allowed", "kube-system"), auth.NoOpinion, false, 0},
		{"a path", &auth.Attributes{User: &auth.User{Name: "allowed"}, Verb: "get", Path: "/x"}, auth.NoOpinion, false, 0},
		{"allowed and denied", at("both", "ns"), auth.NoOpinion, true, 1},
		{"broken", at("broken", "ns"), auth.NoOpinion, true, 1},
		{"broken again, not from the cache", at("broken", "ns"), auth.NoOpinion, true, 1},
	} {
		before := s.count()
		d, _, err := a.Authorize(t.Context(), c.at)
		if d != c.want || (err != nil) != c.fails || s.count()-before != c.asks {
			t.Errorf("%s: %s in %s: %v %v after %d questions", c.name, c.at.User.Name, c.at.Namespace, d, err, s.count()-before)
		}
	}
	if body := s.asked[0]; !strings.Contains(body,
		`"fieldSelector":{"requirements":[{"key":"spec.nodeName","operator":"In","values":["n"]}]}`) ||
		!strings.Contains(body, `{"key":"c","operator":"NotIn","values":["x","y"]}`) || !strings.Contains(body, `"groups":["g"]`) {
		t.Errorf("asked %s", body)
	}
	now = now.Add(2 * time.Second)
	before := s.count()
	_, _, _ = a.Authorize(t.Context(), at("allowed", "ns"))
	_, _, _ = a.Authorize(t.Context(), at("denied", "ns"))
	if s.count()-before != 1 {
		t.Error("decisions are remembered too long or too short")
	}
	cfg.DenyOnFailure, cfg.Version, cfg.Conditions = true, "v1beta1", nil
	if a, err = NewAuthorizer(cfg); err != nil {
		t.Fatal(err)
	}
	if d, _, err := a.Authorize(t.Context(), at("broken", "ns")); d != auth.Deny || err == nil {
		t.Errorf("%v %v", d, err)
	}
	if body := s.asked[len(s.asked)-1]; !strings.Contains(body, `"group":["g"]`) ||
		!strings.Contains(body, "authorization.k8s.io/v1beta1") || strings.Contains(body, `"groups"`) {
		t.Errorf("asked %s", body)
	}
	cfg.Conditions = []string{"request.nothing"}
	if _, err := NewAuthorizer(cfg); err == nil || !strings.Contains(err.Error(), "matchConditions[0]") {
		t.Error(err)
	}
}

// TestTriesAgain has a server that can't answer at first.
func TestTriesAgain(t *testing.T) {
	left := 2
	s, kubeconfig := serve(t, func(map[string]any) (int, string) {
		if left--; left >= 0 {
			return 503, `{}`
		}
		return 200, `{"authenticated":true,"user":{"username":"joe"}}`
	})
	k, err := NewTokens(webhook.Kubeconfigs(), kubeconfig, "v1")
	if err != nil {
		t.Fatal(err)
	}
	k.server.Pause = time.Millisecond
	if _, _, ok, err := k.Token(t.Context(), "t", nil); !ok || s.count() != 3 {
		t.Errorf("%v after %d tries", err, s.count())
	}
	left = 100
	if _, _, ok, err := k.Token(t.Context(), "t", nil); ok || err == nil || s.count() != 3+patience.Tries {
		t.Errorf("%v after %d tries", err, s.count())
	}
}
