// Package web is the live page: static files that show a cluster in a browser by its API alone, and the local server of kloop ui, which
// lends them the rights of a kubeconfig.
//
// The page keeps no truth of its own: it lists and watches what the Kubernetes API and the group convergence.kloop.dev tell the caller.
// It is plain HTML, CSS and modules, packed into the program as they are, and works offline. Names and messages of a cluster are
// hostile input: they reach the document as text alone, which the policy in every answer enforces (no inline code, trusted types).
package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
)

// packed has the files below page by their names, as JSON, packed by TestPacked.
//
//go:embed page.json.gz
var packed []byte

// Root is the path below which the page is served, by a server and by kloop ui alike.
const Root = "/ui/"

// policy is the content security policy of the page: nothing from elsewhere, no code but its own files, no HTML made of strings.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// slowest is the time that the writing of a file may take.
const slowest = 30 * time.Second

// A file as it is served.
type file struct {
	body      []byte
	kind, tag string
}

// types are the files that there are, by their extension.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

// served has all files by their name below Root.
var served = sync.OnceValues(func() (map[string]file, error) {
	all := map[string]file{}
	texts, err := unpack()
	for name, text := range texts {
		body := []byte(text)
		all[name] = file{body, types[path.Ext(name)], fmt.Sprintf("%q", fmt.Sprintf("%x", sha256.Sum256(body))[:16])}
	}
	return all, err
})

func unpack() (texts map[string]string, err error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err == nil {
		err = json.NewDecoder(z).Decode(&texts)
	}
	return texts, err
}

// ServePage answers with a file of the page. The files are the same for everybody and have no rights: nothing of a cluster is in them.
// It may be called from many goroutines.
func ServePage(w http.ResponseWriter, r *http.Request) {
	guard(w.Header())
	name, below := strings.CutPrefix(r.URL.Path, Root)
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "the page is only read", http.StatusMethodNotAllowed)
		return
	case !below:
		http.Redirect(w, r, Root, http.StatusPermanentRedirect)
		return
	case name == "":
		name = "index.html"
	}
	all, err := served()
	f, ok := all[name]
	if err != nil || !ok {
		http.Error(w, "the page has no such file", http.StatusNotFound)
		return
	}
	out := http.NewResponseController(w) // who reads slower than that does not hold a connection
	if out.SetWriteDeadline(time.Now().Add(slowest)) == nil {
		defer func() { _ = out.SetWriteDeadline(time.Time{}) }()
	}
	w.Header().Set("Content-Type", f.kind)
	w.Header().Set("ETag", f.tag)
	w.Header().Set("Cache-Control", "no-cache") // another kloop has another page
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(f.body))
}

// guard sets what keeps other sites away from an answer.
func guard(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}
