package discovery

import (
	"crypto/sha512"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/server/httpapi/reply"
)

// Docs makes the OpenAPI documents; package openapi implements it. Documents are shared and must not be changed.
type Docs interface {
	// Index returns the hash of each v3 document by its path: api/v1, apis/apps/v1.
	Index() map[string]string
	// V3 returns the document at a path of the index as JSON, and its hash; V3Proto the same as protobuf.
	V3(path string) (doc []byte, hash string, err error)
	V3Proto(path string) (doc []byte, hash string, err error)
	// V2JSON returns the document of everything, in parts that follow each other; V2Proto the same as protobuf.
	V2JSON() (doc [][]byte, hash string, err error)
	V2Proto() (doc [][]byte, hash string, err error)
	// V2Hash returns the hash that both have now. Nothing is made for it.
	V2Hash() string
}

// OpenAPI answers below /openapi.
type OpenAPI struct {
	Docs Docs // nil: the documents are not served
	Send reply.Sender
}

// Serve answers the path /openapi/ and parts.
func (s *OpenAPI) Serve(w http.ResponseWriter, r *http.Request, parts []string) {
	folder := strings.HasSuffix(r.URL.Path, "/")
	switch {
	case s.Docs == nil:
		reply.NotFoundPage(w)
	case parts[0] == "v2" && len(parts) == 1 && !folder:
		s.v2(w, r)
	case parts[0] == "v3" && len(parts) == 1 && !folder:
		s.index(w, r)
	case parts[0] == "v3":
		s.v3(w, r, strings.TrimPrefix(r.URL.Path, "/openapi/v3/"))
	default:
		reply.NotFoundPage(w)
	}
}

func (s *OpenAPI) v2(w http.ResponseWriter, r *http.Request) {
	proto, ok := wantsProtoDoc(r.Header.Get("Accept"), "v2")
	if !ok {
		unacceptable(w)
		return
	}
	if r.Header.Get("If-None-Match") != "" && s.unchanged(w, r, s.Docs.V2Hash()) {
		return
	}
	get, typ := s.Docs.V2JSON, codec.JSON
	if proto {
		get, typ = s.Docs.V2Proto, "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	}
	doc, hash, err := get()
	if err != nil {
		s.Send.Fail(w, r, err)
		return
	}
	s.tagged(w, r, typ, hash, doc...)
}

// unacceptable refuses a type, with the word that another might be had.
func unacceptable(w http.ResponseWriter) {
	w.Header().Add("Vary", "Accept")
	w.WriteHeader(http.StatusNotAcceptable)
}

// tagged answers with a document unless the client has it already.
func (s *OpenAPI) tagged(w http.ResponseWriter, r *http.Request, typ, hash string, doc ...[]byte) {
	if s.unchanged(w, r, hash) {
		return
	}
	w.Header().Set("ETag", strconv.Quote(hash))
	w.Header().Add("Vary", "Accept")
	s.Send.Write(w, r, http.StatusOK, typ, doc...)
}

// unchanged answers a client that has the document with this hash already.
func (s *OpenAPI) unchanged(w http.ResponseWriter, r *http.Request, hash string) bool {
	tag := strconv.Quote(hash)
	if r.Header.Get("If-None-Match") != tag {
		return false
	}
	w.Header().Set("ETag", tag)
	w.Header().Add("Vary", "Accept")
	w.WriteHeader(http.StatusNotModified)
	return true
}

func (s *OpenAPI) index(w http.ResponseWriter, r *http.Request) {
	index := s.Docs.Index()
	type link struct {
		URL string `json:"serverRelativeURL"`
	}
	paths := map[string]link{}
	for path, hash := range index {
		paths[path] = link{"/openapi/v3/" + path + "?hash=" + url.QueryEscape(hash)}
	}
	doc, err := codec.MarshalJSON(map[string]any{"paths": paths})
	if err != nil {
		s.Send.Fail(w, r, err)
		return
	}
	s.tagged(w, r, "text/plain; charset=utf-8", fmt.Sprintf("%X", sha512.Sum512_256(doc)), doc)
}

// v3 answers with the document at one path of the index. One asked for by its right hash may be kept for
// ever; a wrong hash is redirected to the right one.
func (s *OpenAPI) v3(w http.ResponseWriter, r *http.Request, path string) {
	proto, ok := wantsProtoDoc(r.Header.Get("Accept"), "v3")
	if !ok {
		unacceptable(w)
		return
	}
	hash, known := s.Docs.Index()[path]
	if !known {
		w.WriteHeader(http.StatusNotFound) // without a word, as upstream
		return
	}
	if asked := r.URL.Query().Get("hash"); asked != "" {
		if asked != hash {
			http.Redirect(w, r, "/openapi/v3/"+path+"?hash="+url.QueryEscape(hash), http.StatusMovedPermanently)
			return
		}
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().UTC().AddDate(1, 0, 0).Format(http.TimeFormat))
	}
	if s.unchanged(w, r, hash) {
		return
	}
	get, typ := s.Docs.V3, codec.JSON
	if proto {
		get, typ = s.Docs.V3Proto, "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
	}
	doc, hash, err := get(path)
	if err != nil {
		s.Send.Fail(w, r, err)
		return
	}
	s.tagged(w, r, typ, hash, doc)
}

// wantsProtoDoc reads the Accept header of a request for an OpenAPI document.
func wantsProtoDoc(header, v string) (proto, ok bool) {
	if header == "" {
		return false, true
	}
	for _, c := range reply.ParseAccept(header) {
		switch {
		case c.Type != "application" && c.Type != "*":
		case c.Sub == "json" || c.Sub == "*":
			return false, true
		case c.Sub == "com.github.proto-openapi.spec."+v+"@v1.0+protobuf", c.Sub == "com.github.proto-openapi.spec."+v+".v1.0+protobuf":
			return true, true
		}
	}
	return false, false
}
