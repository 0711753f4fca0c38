package httpapi

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/server/httpapi/aggregator"
	"github.com/kloop-dev/kloop/server/httpapi/reply"
)

// page answers the paths that are no resources.
func (s *handler) page(w http.ResponseWriter, r *http.Request, i *info) {
	parts := split(i.Path)
	switch {
	case len(parts) == 0 || i.Path == "/index.html":
		s.roots(w)
	case strings.HasPrefix(i.Path, "/apis//"): // below /apis every group has a name
		reply.NotFoundPage(w)
	case parts[0] == "api" || parts[0] == "apis":
		s.discovery.Serve(w, aggregator.WithUser(r, i.User), parts)
	case i.Path == "/version" || i.Path == "/version/":
		if r.Method != http.MethodGet {
			s.send.Fail(w, r, reply.Generic(http.StatusMethodNotAllowed))
			return
		}
		if !reply.Takes(r.Header.Get("Accept"), codec.JSON) {
			s.send.Fail(w, r, reply.Unrouted(codec.JSON))
			return
		}
		writeIndented(w, s.cfg.Version)
	case parts[0] == "healthz" || parts[0] == "livez" || parts[0] == "readyz":
		s.health.Serve(w, r, parts)
	case slices.Contains(s.self.Paths(), i.Path):
		s.self.Serve(w, r)
	case i.Path == "/metrics":
		s.meter.serve(w, r)
	case i.Path == "/metrics/slis":
		s.health.ServeSLIs(w, r)
	case parts[0] == "openapi" && len(parts) > 1:
		s.openapi.Serve(w, r, parts[1:])
	case slices.Contains(issuerPaths, strings.TrimSuffix(i.Path, "/")):
		s.issuer(w, r, strings.TrimSuffix(i.Path, "/"))
	case i.Path == debugFlags || strings.HasPrefix(i.Path, debugFlags+"/"):
		s.flags(w, r, i.Path)
	case s.cfg.Profiles != nil && i.Path == "/debug/pprof":
		http.Redirect(w, r, "/debug/pprof/", http.StatusFound)
	case s.cfg.Profiles != nil && strings.HasPrefix(i.Path, "/debug/pprof/"):
		s.cfg.Profiles(w, r, strings.TrimPrefix(i.Path, "/debug/pprof/"))
	default:
		s.extra(w, aggregator.WithUser(r, i.User), i.Path)
	}
}

// extra serves the further paths of the configuration; the longest match wins.
func (s *handler) extra(w http.ResponseWriter, r *http.Request, path string) {
	for {
		if h, ok := s.cfg.Extra[path]; ok {
			h.ServeHTTP(w, r)
			return
		}
		if h, ok := s.unlisted[path]; ok {
			h.ServeHTTP(w, r)
			return
		}
		cut := strings.LastIndexByte(strings.TrimSuffix(path, "/"), '/')
		if cut < 0 || path == "/" {
			reply.NotFoundPage(w)
			return
		}
		path = path[:cut+1]
	}
}

// roots lists the paths there are.
func (s *handler) roots(w http.ResponseWriter) {
	paths := []string{"/.well-known/openid-configuration", "/api", "/api/v1", "/apis", "/apis/", "/healthz", "/livez",
		"/metrics", "/metrics/slis", "/openapi/v2", "/openapi/v3", "/openapi/v3/", "/openid/v1/jwks", "/readyz", "/version"}
	paths = append(paths, s.self.Paths()...)
	for _, g := range s.discovery.Groups() {
		if g.Name == "" {
			continue
		}
		paths = append(paths, "/apis/"+g.Name)
		for _, v := range g.Versions {
			paths = append(paths, "/apis/"+g.Name+"/"+v.Name)
		}
	}
	for _, c := range s.health.Checks("readyz") {
		paths = append(paths, "/healthz/"+c.Name, "/livez/"+c.Name, "/readyz/"+c.Name)
	}
	paths = append(paths, slices.Collect(maps.Keys(s.cfg.Extra))...)
	slices.Sort(paths)
	writeIndented(w, map[string]any{"paths": slices.Compact(paths)})
}

func writeIndented(w http.ResponseWriter, v any) {
	doc, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", codec.JSON)
	_, _ = w.Write(doc)
}

var issuerPaths = []string{"/.well-known/openid-configuration", "/openid/v1/jwks"}

// issuer answers the public side of service account tokens.
func (s *handler) issuer(w http.ResponseWriter, r *http.Request, path string) {
	if s.cfg.Issuer == nil {
		reply.NotFoundPage(w)
		return
	}
	get, typ := s.cfg.Issuer.Configuration, codec.JSON
	if path == "/openid/v1/jwks" {
		get, typ = s.cfg.Issuer.Keys, "application/jwk-set+json"
	}
	switch {
	case r.Method != http.MethodGet:
		s.send.Fail(w, r, reply.Generic(http.StatusMethodNotAllowed))
		return
	case !reply.Takes(r.Header.Get("Accept"), typ): // also who asks for JSON: the keys have a type of their own
		s.send.Fail(w, r, reply.Unrouted(typ))
		return
	}
	doc, err := get()
	if err != nil {
		s.send.Fail(w, r, err)
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=3600")
	s.send.Write(w, r, http.StatusOK, typ, doc)
}
