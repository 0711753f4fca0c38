package web

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Config says whose rights a Local lends, and to whom.
type Config struct {
	Host      string                  // host:port at which browsers reach it, exactly as in their address line
	Server    *url.URL                // the API server; a path of its own is kept
	Transport http.RoundTripper       // speaks to it, as the user of the kubeconfig
	More      map[string]http.Handler // what is answered here, by path; only for those who are let in
}

// A Local shows the page on this machine and passes reads on to an API server, with the rights of a kubeconfig. It lets in the one
// browser that comes with the link's token, which opens once, and from then on by its cookie. It passes nothing on that writes, opens a
// connection into the cluster, or reads a Secret. It is safe for concurrent use.
type Local struct {
	cfg    Config
	pass   *Passage
	cookie http.Cookie

	mu    sync.Mutex
	token string // "": it has opened
}

// NewLocal returns a Local. It starts nothing: serve it on the loopback alone.
func NewLocal(cfg Config) *Local {
	l := &Local{cfg: cfg, token: rand.Text(), pass: NewPassage(cfg.Server, cfg.Transport, false)}
	_, port, _ := net.SplitHostPort(cfg.Host)
	l.cookie = http.Cookie{Name: "kloop-ui-" + port, Value: rand.Text() + rand.Text(), Path: "/",
		HttpOnly: true, SameSite: http.SameSiteStrictMode}
	return l
}

const loginPath = Root + "login"

// Link is the address that opens the page, once.
func (l *Local) Link() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return "http://" + l.cfg.Host + loginPath + "?token=" + l.token
}

// ServeHTTP implements http.Handler.
func (l *Local) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	guard(w.Header())
	w.Header().Set("Cache-Control", "no-store")
	switch {
	case r.Host != l.cfg.Host: // a name of somebody else's that leads here
		http.Error(w, "this is kloop ui: open the link that it printed", http.StatusMisdirectedRequest)
	case r.URL.Path == loginPath:
		l.login(w, r)
	case !l.knows(r):
		http.Error(w, "open the link that kloop ui printed; it opens once, in one browser. Start kloop ui again for another",
			http.StatusUnauthorized)
	case l.foreign(r):
		http.Error(w, "another site may not ask this", http.StatusForbidden)
	default:
		l.answer(w, r)
	}
}

// login gives the cookie to the first who comes with the token. The answer leads on by itself, since a redirect of a link that another
// site shows would come without the cookie.
func (l *Local) login(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	ok := l.token != "" && r.Method == http.MethodGet && same(r.URL.Query().Get("token"), l.token)
	if ok {
		l.token = ""
	}
	l.mu.Unlock()
	if !ok && !l.knows(r) {
		http.Error(w, "this link does not open, or has opened already. Start kloop ui again for another", http.StatusForbidden)
		return
	}
	if ok {
		http.SetCookie(w, &l.cookie)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprintf(w, "<!doctype html><title>kloop</title><meta http-equiv=refresh content=\"0; url=%s\"><p><a href=%q>kloop</a>", Root, Root)
}

// knows says that the request comes with the cookie.
func (l *Local) knows(r *http.Request) bool {
	c, err := r.Cookie(l.cookie.Name)
	return err == nil && same(c.Value, l.cookie.Value)
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// foreign says that another site has the browser ask. A browser sends its cookie to all ports of a host, so this is asked besides.
func (l *Local) foreign(r *http.Request) bool {
	if o := r.Header.Get("Origin"); o != "" && o != "http://"+l.cfg.Host {
		return true
	}
	site := r.Header.Get("Sec-Fetch-Site")
	return site != "" && site != "same-origin" && site != "none"
}

// answer serves who was let in.
func (l *Local) answer(w http.ResponseWriter, r *http.Request) {
	if h := l.cfg.More[r.URL.Path]; h != nil {
		h.ServeHTTP(w, r)
		return
	}
	if r.URL.Path == "/" || r.URL.Path+"/" == Root || strings.HasPrefix(r.URL.Path, Root) {
		ServePage(w, r)
		return
	}
	l.pass.ServeHTTP(w, r)
}

// fail answers as an API server would.
func fail(w http.ResponseWriter, code int32, reason metav1.StatusReason, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(code))
	_ = json.NewEncoder(w).Encode(&metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Code: code, Reason: reason, Message: why})
}
