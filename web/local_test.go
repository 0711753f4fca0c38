package web

import (
	"crypto/sha256"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

const host = "127.0.0.1:7654"

// An upstream stands for an API server: it tells what it was asked.
type upstream struct {
	asked []*http.Request
	reply func(w http.ResponseWriter)
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.asked = append(u.asked, r)
	if u.reply != nil {
		u.reply(w)
		return
	}
	w.Header().Set("Set-Cookie", "theirs=1")
	w.Header().Set("Access-Control-Allow-Origin", "*")
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, "{}")
}

// begin returns a Local before an API server below a path of its own.
func begin(t *testing.T) (*Local, *upstream) {
	t.Helper()
	u := &upstream{}
	s := httptest.NewServer(u)
	t.Cleanup(s.Close)
	to, err := url.Parse(s.URL + "/clusters/one/")
	if err != nil {
		t.Fatal(err)
	}
	more := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "more") })
	return NewLocal(Config{Host: host, Server: to, Transport: http.DefaultTransport, More: map[string]http.Handler{"/local/more": more}}), u
}

// A question is a request as a browser, or somebody who is none, makes it.
type question struct {
	method, host, path string
	head               map[string]string
	cookie             *http.Cookie
}

func (q question) ask(l *Local) *http.Response {
	if q.method == "" {
		q.method = http.MethodGet
	}
	r := httptest.NewRequest(q.method, "http://x"+q.path, strings.NewReader("{}"))
	if r.Host = q.host; q.host == "" {
		r.Host = host
	}
	for k, v := range q.head {
		r.Header.Set(k, v)
	}
	if q.cookie != nil {
		r.AddCookie(q.cookie)
	}
	w := httptest.NewRecorder()
	l.ServeHTTP(w, r)
	return w.Result()
}

// enter opens the link and returns the cookie.
func enter(t *testing.T, l *Local) *http.Cookie {
	t.Helper()
	_, path, _ := strings.Cut(l.Link(), host)
	res := question{path: path}.ask(l)
	if res.StatusCode != http.StatusOK || len(res.Cookies()) != 1 {
		t.Fatalf("the link opens with %s and %d cookies", res.Status, len(res.Cookies()))
	}
	return res.Cookies()[0]
}

func TestLinkOpensOnce(t *testing.T) {
	l, _ := begin(t)
	_, link, _ := strings.Cut(l.Link(), host)
	for _, wrong := range []string{"/ui/login", "/ui/login?token=", "/ui/login?token=x", link + "x"} {
		if res := (question{path: wrong}).ask(l); res.StatusCode != http.StatusForbidden || len(res.Cookies()) > 0 {
			t.Errorf("%s: %s", wrong, res.Status)
		}
	}
	if res := (question{path: link, host: "evil.example"}).ask(l); res.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("a name of somebody else's opens it: %s", res.Status)
	}
	c := enter(t, l)
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Domain != "" || len(c.Value) < 32 {
		t.Errorf("the cookie %+v", c)
	}
	if res := (question{path: link}).ask(l); res.StatusCode != http.StatusForbidden || len(res.Cookies()) > 0 {
		t.Errorf("the link opens twice: %s", res.Status)
	}
	if res := (question{path: "/ui/login?token="}).ask(l); res.StatusCode != http.StatusForbidden {
		t.Errorf("an empty token opens it: %s", res.Status)
	}
	if res := (question{path: link, cookie: c}).ask(l); res.StatusCode != http.StatusOK || len(res.Cookies()) > 0 {
		t.Errorf("who is in comes by the link again: %s", res.Status)
	}
}

func TestWhoIsLetIn(t *testing.T) {
	l, u := begin(t)
	c := enter(t, l)
	stolen := *c
	stolen.Value = strings.ToLower(c.Value)
	own := map[string]string{"Origin": "http://" + host, "Sec-Fetch-Site": "same-origin"}
	for _, tt := range []struct {
		name string
		q    question
		want int
	}{
		{"the page", question{path: "/ui/", cookie: c}, 200},
		{"the API", question{path: "/api/v1/pods?limit=5", cookie: c}, 200},
		{"what is answered here", question{path: "/local/more", cookie: c}, 200},
		{"from the page itself", question{path: "/api/v1/pods", cookie: c, head: own}, 200},
		{"no cookie", question{path: "/api/v1/pods"}, 401},
		{"no cookie, the page", question{path: "/ui/"}, 401},
		{"a wrong cookie", question{path: "/api/v1/pods", cookie: &stolen}, 401},
		{"a bearer token in its place", question{path: "/api/v1/pods", head: map[string]string{"Authorization": "Bearer x"}}, 401},
		{"DNS rebinding", question{path: "/api/v1/pods", cookie: c, host: "evil.example:7654"}, 421},
		{"localhost is another name", question{path: "/api/v1/pods", cookie: c, host: "localhost:7654"}, 421},
		{"another port", question{path: "/api/v1/pods", cookie: c, host: "127.0.0.1"}, 421},
		{"another site's origin", question{path: "/api/v1/pods", cookie: c, head: map[string]string{"Origin": "https://evil.example"}}, 403},
		{"no site's origin", question{path: "/api/v1/pods", cookie: c, head: map[string]string{"Origin": "null"}}, 403},
		{"another site's picture", question{path: "/api/v1/pods", cookie: c, head: map[string]string{"Sec-Fetch-Site": "cross-site"}}, 403},
		{"a server at another port", question{path: "/api/v1/pods", cookie: c, head: map[string]string{"Sec-Fetch-Site": "same-site"}}, 403},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := len(u.asked)
			res := tt.q.ask(l)
			if res.StatusCode != tt.want {
				t.Errorf("%s, want %d", res.Status, tt.want)
			}
			if tt.want != 200 && len(u.asked) != before {
				t.Error("the server was asked")
			}
			if res.Header.Get("Content-Security-Policy") == "" || res.Header.Get("X-Content-Type-Options") != "nosniff" ||
				res.Header.Get("Cross-Origin-Resource-Policy") != "same-origin" {
				t.Errorf("unguarded: %v", res.Header)
			}
		})
	}
}

func TestWhatIsPassedOn(t *testing.T) {
	l, u := begin(t)
	c := enter(t, l)
	for _, tt := range []struct {
		method, path, upgrade string
		want                  int
	}{
		{path: "/version", want: 200},
		{path: "/api", want: 200},
		{path: "/apis", want: 200},
		{path: "/apis/apps", want: 200},
		{path: "/apis/apps/v1", want: 200},
		{path: "/api/v1/pods?watch=1", want: 200},
		{path: "/api/v1/namespaces/a", want: 200},
		{path: "/api/v1/namespaces/a/status", want: 200},
		{path: "/api/v1/namespaces/a/pods/b/log?follow=true", want: 200},
		{path: "/apis/apps/v1/namespaces/a/deployments/b/scale", want: 200},
		{path: "/apis/convergence.kloop.dev/v1alpha1/namespaces/a/gaps/deployments.apps%3Aweb", want: 200},
		{path: "/convergence/trail?resource=pods&name=x&follow=true", want: 200},
		{method: "POST", path: "/api/v1/namespaces/a/pods", want: 403},
		{method: "PUT", path: "/api/v1/namespaces/a/pods/b", want: 403},
		{method: "PATCH", path: "/api/v1/namespaces/a/pods/b", want: 403},
		{method: "DELETE", path: "/api/v1/namespaces/a/pods/b", want: 403},
		{method: "CONNECT", path: "/api/v1/pods", want: 403},
		{path: "/api/v1/namespaces/a/pods/b/exec?command=id", want: 403},
		{path: "/api/v1/namespaces/a/pods/b/attach", want: 403},
		{path: "/api/v1/namespaces/a/pods/b/portforward", want: 403},
		{path: "/api/v1/namespaces/a/pods/b/proxy/", want: 403},
		{path: "/api/v1/namespaces/a/services/b/proxy/x", want: 403},
		{path: "/api/v1/nodes/n/proxy/logs/", want: 403},
		{path: "/api/v1/proxy/namespaces/a/pods/b", want: 403},
		{path: "/api/v1/watch/secrets", want: 403},
		{path: "/api/v1/secrets", want: 403},
		{path: "/api/v1/namespaces/a/secrets", want: 403},
		{path: "/api/v1/namespaces/a/secrets/b", want: 403},
		{path: "/api/v1/namespaces/a/%73ecrets/b", want: 403},
		{path: "/api/v1/namespaces/a/pods/..%2fsecrets", want: 403},
		{path: "/api/v1/namespaces/a/pods/../secrets", want: 403},
		{path: "/api/v1//secrets", want: 403},
		{path: "/api/v1/pods", upgrade: "websocket", want: 403},
		{path: "/logs/", want: 403},
		{path: "/debug/pprof/profile", want: 403},
		{path: "/metrics", want: 403},
		{path: "/kloop/keys", want: 403},
		{path: "/local/other", want: 403},
	} {
		t.Run(tt.method, func(t *testing.T) {
			before := len(u.asked)
			q := question{method: tt.method, path: tt.path, cookie: c}
			if tt.upgrade != "" {
				q.head = map[string]string{"Upgrade": tt.upgrade, "Connection": "Upgrade"}
			}
			if res := q.ask(l); res.StatusCode != tt.want || len(u.asked)-before != map[bool]int{true: 1}[tt.want == 200] {
				t.Errorf("%s %s: %s and %d requests to the server, want %d", tt.method, tt.path, res.Status, len(u.asked)-before, tt.want)
			}
		})
	}
}

// TestHeadersOfTheBrowser sees that nobody can borrow more than the kubeconfig's rights, and that the server sets nothing in the browser.
func TestHeadersOfTheBrowser(t *testing.T) {
	l, u := begin(t)
	c := enter(t, l)
	res := question{path: "/api/v1/pods?limit=5", cookie: c, head: map[string]string{
		"Accept": "application/json", "Authorization": "Bearer theirs",
		"Impersonate-User": "system:admin", "Impersonate-Group": "system:masters", "X-Remote-User": "root", "X-Forwarded-For": "1.2.3.4",
		"X-Kloop-Cause": "x"}}.ask(l)
	got := u.asked[len(u.asked)-1]
	for name := range got.Header {
		if name != "Accept" && name != "User-Agent" && name != "Accept-Encoding" {
			t.Errorf("the server is sent %s: %v", name, got.Header[name])
		}
	}
	if got.URL.String() != "/clusters/one/api/v1/pods?limit=5" || got.Header.Get("Accept") != "application/json" {
		t.Errorf("the server is asked for %s, %s", got.URL, got.Header)
	}
	for _, name := range []string{"Set-Cookie", "Access-Control-Allow-Origin"} {
		if res.Header.Get(name) != "" {
			t.Errorf("the browser is sent %s", name)
		}
	}
	if !strings.Contains(res.Header.Get("Content-Security-Policy"), "sandbox") {
		t.Error("data may be a page")
	}
}

func TestSeats(t *testing.T) {
	l, u := begin(t)
	c := enter(t, l)
	nobody := sha256.Sum256(nil)
	for range maxAsked {
		l.pass.enter(nobody)
	}
	if res := (question{path: "/api/v1/pods", cookie: c}).ask(l); res.StatusCode != http.StatusTooManyRequests || len(u.asked) > 0 {
		t.Errorf("%s when all seats are taken", res.Status)
	}
	l.pass.leave(nobody)
	if res := (question{path: "/api/v1/pods", cookie: c}).ask(l); res.StatusCode != 200 || l.pass.all != maxAsked-1 {
		t.Errorf("%s, and %d seats are taken after it", res.Status, l.pass.all)
	}
}

// What is passed on for many has the token of who asks and nothing else of theirs, and nobody takes all seats.
func TestPassage(t *testing.T) {
	var asked []*http.Request
	u := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked = append(asked, r) }))
	defer u.Close()
	at, err := url.Parse(u.URL)
	if err != nil {
		t.Fatal(err)
	}
	p := NewPassage(at, http.DefaultTransport, true)
	ask := func(method, path, token string) int {
		r := httptest.NewRequest(method, path, nil)
		r.Header = http.Header{"Authorization": {"Bearer " + token}, "Impersonate-User": {"root"}, "X-Remote-User": {"root"}, "Cookie": {"a=b"}}
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		return w.Code
	}
	if code := ask("GET", "/api/v1/pods", "jane"); code != 200 || len(asked) != 1 || asked[0].Header.Get("Authorization") != "Bearer jane" ||
		asked[0].Header.Get("Impersonate-User")+asked[0].Header.Get("X-Remote-User")+asked[0].Header.Get("Cookie") != "" {
		t.Errorf("%d, and the server is asked %+v", code, asked)
	}
	for _, what := range []string{"POST /api/v1/pods", "GET /api/v1/secrets", "GET /api/v1/namespaces/a/pods/b/exec", "DELETE /api/v1/nodes"} {
		method, path, _ := strings.Cut(what, " ")
		if code := ask(method, path, "jane"); code != http.StatusForbidden || len(asked) != 1 {
			t.Errorf("%s: %d", what, code)
		}
	}
	jane := sha256.Sum256([]byte("Bearer jane"))
	for range maxAsked {
		p.enter(jane)
	}
	if a, b := ask("GET", "/api/v1/pods", "jane"), ask("GET", "/api/v1/pods", "joe"); a != http.StatusTooManyRequests || b != 200 {
		t.Errorf("who has all their seats taken is told %d, another %d", a, b)
	}
}
