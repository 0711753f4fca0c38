package httpapi

import (
	"crypto/sha512"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/kloop-dev/kloop/resource/codec"
)

// openapi answers below /openapi.
func (s *surface) openapi(w http.ResponseWriter, r *http.Request, parts []string) {
	switch {
	case s.cfg.OpenAPI == nil:
		notFoundPage(w)
	case parts[0] == "v2" && len(parts) == 1:
		s.openapiV2(w, r)
	case parts[0] == "v3" && len(parts) == 1:
		s.openapiIndex(w, r)
	case parts[0] == "v3":
		s.openapiV3(w, r, strings.Join(parts[1:], "/"))
	default:
		notFoundPage(w)
	}
}

func (s *surface) openapiV2(w http.ResponseWriter, r *http.Request) {
	proto, ok := wantsProtoDoc(r.Header.Get("Accept"), "v2")
	if !ok {
		s.fail(w, r, generic(http.StatusNotAcceptable))
		return
	}
	get, typ := s.cfg.OpenAPI.V2JSON, codec.JSON
	if proto {
		get, typ = s.cfg.OpenAPI.V2Proto, "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	}
	doc, hash, err := get()
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.tagged(w, r, typ, doc, hash)
}

// tagged answers with a document unless the client has it already.
func (s *surface) tagged(w http.ResponseWriter, r *http.Request, typ string, doc []byte, hash string) {
	tag := strconv.Quote(hash)
	w.Header().Set("ETag", tag)
	w.Header().Add("Vary", "Accept")
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	s.write(w, r, http.StatusOK, typ, doc)
}

func (s *surface) openapiIndex(w http.ResponseWriter, r *http.Request) {
	index := s.cfg.OpenAPI.Index()
	type link struct {
		URL string `json:"serverRelativeURL"`
	}
	paths := map[string]link{}
	for path, hash := range index {
		paths[path] = link{"/openapi/v3/" + path + "?hash=" + url.QueryEscape(hash)}
	}
	doc, err := codec.MarshalJSON(map[string]any{"paths": paths})
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.tagged(w, r, "text/plain; charset=utf-8", doc, fmt.Sprintf("%X", sha512.Sum512_256(doc)))
}

// openapiV3 answers with the document at one path of the index. One asked for by its right hash may be kept for
// ever; a wrong hash is redirected to the right one.
func (s *surface) openapiV3(w http.ResponseWriter, r *http.Request, path string) {
	proto, ok := wantsProtoDoc(r.Header.Get("Accept"), "v3")
	if !ok {
		s.fail(w, r, generic(http.StatusNotAcceptable))
		return
	}
	hash, known := s.cfg.OpenAPI.Index()[path]
	if !known {
		notFoundPage(w)
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
	get, typ := s.cfg.OpenAPI.V3, codec.JSON
	if proto {
		get, typ = s.cfg.OpenAPI.V3Proto, "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
	}
	doc, hash, err := get(path)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.tagged(w, r, typ, doc, hash)
}

// wantsProtoDoc reads the Accept header of a request for an OpenAPI document.
func wantsProtoDoc(header, v string) (proto, ok bool) {
	if header == "" {
		return false, true
	}
	for _, c := range parseAccept(header) {
		switch {
		case c.typ != "application" && c.typ != "*":
		case c.sub == "json" || c.sub == "*":
			return false, true
		case c.sub == "com.github.proto-openapi.spec."+v+"@v1.0+protobuf", c.sub == "com.github.proto-openapi.spec."+v+".v1.0+protobuf":
			return true, true
		}
	}
	return false, false
}
