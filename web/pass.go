package web

import (
	"crypto/sha256"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// How many requests are passed on at once: of one browser, which has six connections to a host, so this is several windows; and of all
// whose tokens are passed on.
const (
	maxAsked    = 64
	maxAskedAll = 1024
)

// A Passage passes reads of the page on to an API server: nothing that writes, opens a connection into the cluster, or reads a Secret.
// It is safe for concurrent use.
type Passage struct {
	server *url.URL
	tokens bool
	proxy  *httputil.ReverseProxy

	mu    sync.Mutex
	asked map[[sha256.Size]byte]int // requests under way, by whose they are
	all   int
}

// NewPassage returns a Passage to the API server at an address, of which a path is kept. The transport says who asks; with tokens it is
// the request's own bearer token instead, and only such requests are to come here.
func NewPassage(server *url.URL, transport http.RoundTripper, tokens bool) *Passage {
	p := &Passage{server: server, tokens: tokens, asked: map[[sha256.Size]byte]int{}}
	p.proxy = &httputil.ReverseProxy{Rewrite: p.rewrite, Transport: transport, FlushInterval: -1, ModifyResponse: bare,
		ErrorHandler: unreached}
	return p
}

// ServeHTTP implements http.Handler.
func (p *Passage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	guard(w.Header())
	w.Header().Set("Cache-Control", "no-store")
	if why := refused(r); why != "" {
		fail(w, http.StatusForbidden, metav1.StatusReasonForbidden, why)
		return
	}
	who := sha256.Sum256([]byte(r.Header.Get("Authorization")))
	if !p.enter(who) {
		fail(w, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "too many requests at once: close a window of the page")
		return
	}
	defer p.leave(who)
	w.Header().Set("Content-Security-Policy", "default-src 'none'; sandbox") // data, whatever it looks like
	p.proxy.ServeHTTP(&paced{w}, r)
}

func (p *Passage) enter(who [sha256.Size]byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked[who] >= maxAsked || p.all >= maxAskedAll {
		return false
	}
	p.asked[who]++
	p.all++
	return true
}

func (p *Passage) leave(who [sha256.Size]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all--
	if p.asked[who]--; p.asked[who] == 0 {
		delete(p.asked, who)
	}
}

// rewrite makes the request to the server: none of the browser's headers but what it accepts, so that nobody is impersonated.
func (p *Passage) rewrite(r *httputil.ProxyRequest) {
	to := *p.server
	to.Path = strings.TrimSuffix(to.Path, "/") + r.In.URL.Path
	to.RawPath, to.RawQuery = "", r.In.URL.RawQuery
	r.Out.URL, r.Out.Host = &to, ""
	r.Out.Header = http.Header{"User-Agent": {"kloop-ui"}}
	if accept := r.In.Header.Get("Accept"); accept != "" {
		r.Out.Header.Set("Accept", accept)
	}
	if p.tokens {
		r.Out.Header.Set("Authorization", r.In.Header.Get("Authorization"))
	}
	r.Out.Body, r.Out.ContentLength = http.NoBody, 0
}

// paced ends an answer whose reader takes nothing for a while, however long the answer goes on.
type paced struct{ http.ResponseWriter }

func (p *paced) Write(data []byte) (int, error) {
	c := http.NewResponseController(p.ResponseWriter)
	if c.SetWriteDeadline(time.Now().Add(slowest)) == nil {
		defer func() { _ = c.SetWriteDeadline(time.Time{}) }()
	}
	return p.ResponseWriter.Write(data)
}

// Unwrap serves http.ResponseController.
func (p *paced) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// bare leaves of the server's headers what says what the body is.
func bare(res *http.Response) error {
	kept := http.Header{}
	for _, name := range []string{"Content-Type", "Content-Length", "Content-Encoding", "Retry-After"} {
		if v := res.Header.Values(name); len(v) > 0 {
			kept[name] = v
		}
	}
	res.Header = kept
	return nil
}

// unreached tells that the server did not answer.
func unreached(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil { // the browser has gone
		return
	}
	fail(w, http.StatusBadGateway, metav1.StatusReasonServiceUnavailable, "the server does not answer: "+err.Error())
}
