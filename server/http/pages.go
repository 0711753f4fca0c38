package httpapi

import (
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource/codec"
)

// page answers the paths that are no resources.
func (s *surface) page(w http.ResponseWriter, r *http.Request, i *info) {
	parts := split(i.Path)
	switch {
	case len(parts) == 0:
		s.roots(w)
	case parts[0] == "api" || parts[0] == "apis":
		s.discover(w, r, i, parts)
	case i.Path == "/version" || i.Path == "/version/":
		if r.Method != http.MethodGet {
			s.fail(w, r, generic(http.StatusMethodNotAllowed))
			return
		}
		writeIndented(w, s.cfg.Version)
	case parts[0] == "healthz" || parts[0] == "livez" || parts[0] == "readyz":
		s.health(w, r, parts)
	case slices.Contains(zpages(s.cfg.Kinds.Features()), i.Path):
		if i.Path == "/statusz" {
			s.statusPage(w, r)
		} else {
			s.flagPage(w, r)
		}
	case i.Path == "/metrics":
		s.meter.serve(w, r)
	case parts[0] == "openapi" && len(parts) > 1:
		s.openapi(w, r, parts[1:])
	case i.Path == "/.well-known/openid-configuration" || i.Path == "/openid/v1/jwks":
		s.issuer(w, r, i.Path)
	case strings.HasPrefix(i.Path, "/debug/pprof/"):
		profile(w, r, strings.TrimPrefix(i.Path, "/debug/pprof/"))
	default:
		s.extra(w, r, i.Path)
	}
}

// profile answers what the runtime knows of itself.
func profile(w http.ResponseWriter, r *http.Request, name string) {
	switch name {
	case "cmdline":
		pprof.Cmdline(w, r)
	case "profile":
		pprof.Profile(w, r)
	case "symbol":
		pprof.Symbol(w, r)
	case "trace":
		pprof.Trace(w, r)
	default:
		pprof.Index(w, r)
	}
}

// extra serves the further paths of the configuration; the longest match wins.
func (s *surface) extra(w http.ResponseWriter, r *http.Request, path string) {
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
			notFoundPage(w)
			return
		}
		path = path[:cut+1]
	}
}

// roots lists the paths there are.
func (s *surface) roots(w http.ResponseWriter) {
	paths := []string{"/.well-known/openid-configuration", "/api", "/api/v1", "/apis", "/apis/", "/healthz", "/livez",
		"/metrics", "/openapi/v2", "/openapi/v3", "/openapi/v3/", "/openid/v1/jwks", "/readyz", "/version"}
	paths = append(paths, zpages(s.cfg.Kinds.Features())...)
	for _, g := range s.groups() {
		if g.Name == "" {
			continue
		}
		paths = append(paths, "/apis/"+g.Name)
		for _, v := range g.Versions {
			paths = append(paths, "/apis/"+g.Name+"/"+v.Name)
		}
	}
	for _, c := range s.checks("readyz") {
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

// discover answers /api, /apis and what is below them down to the list of resources.
func (s *surface) discover(w http.ResponseWriter, r *http.Request, i *info, parts []string) {
	root := len(parts) == 1
	name, ver, exists := "", "", true
	switch {
	case parts[0] == "api" && len(parts) == 2:
		ver = parts[1]
	case parts[0] == "apis" && len(parts) == 2:
		name = parts[1]
	case parts[0] == "apis" && len(parts) == 3:
		name, ver = parts[1], parts[2]
	case !root:
		exists = false
	}
	g, known := s.group(name)
	v, served := g.version(ver)
	if !exists || !root && (!known || ver != "" && !served) {
		s.undiscovered(w, r, name)
		return
	}
	if r.Method != http.MethodGet {
		s.fail(w, r, generic(http.StatusMethodNotAllowed))
		return
	}
	switch {
	case root:
		s.root(w, r, parts[0] == "api")
	case ver == "":
		s.discovered(w, r, apiGroup(g, true))
	case s.cfg.Groups != nil && s.cfg.Groups.Claims(schema.GroupVersion{Group: name, Version: ver}):
		s.delegate(w, r, i)
	default:
		s.discovered(w, r, resourceList(schema.GroupVersion{Group: name, Version: ver}, v))
	}
}

// undiscovered tells apart what upstream's parts answer differently: unknown versions of built-in groups and
// paths of nobody.
func (s *surface) undiscovered(w http.ResponseWriter, r *http.Request, group string) {
	if group == "" || s.docs.builtin(s.cfg.Kinds, group) {
		s.fail(w, r, generic(http.StatusNotFound))
		return
	}
	notFoundPage(w)
}

// discovered answers with a document of the old form of discovery.
func (s *surface) discovered(w http.ResponseWriter, r *http.Request, doc runtime.Object) {
	acc, ok := negotiate(r.Header.Get("Accept"), true, nil)
	if !ok {
		s.fail(w, r, notAcceptable(true))
		return
	}
	acc.pretty = acc.pretty || wantsPretty(r)
	s.object(w, r, acc, http.StatusOK, doc)
}

// root answers /api or /apis, in the old form or all groups at once.
func (s *surface) root(w http.ResponseWriter, r *http.Request, legacy bool) {
	acc, ok := negotiate(r.Header.Get("Accept"), true, func(a accepted) bool {
		return a.as == "APIGroupDiscoveryList" && a.group == "apidiscovery.k8s.io" && a.version == "v2"
	})
	w.Header().Set("Vary", "Accept")
	switch {
	case !ok:
		s.fail(w, r, notAcceptable(true))
	case acc.as != "":
		s.aggregate(w, r, acc, legacy)
	case legacy:
		s.object(w, r, acc, http.StatusOK, s.apiVersions(r))
	default:
		s.object(w, r, acc, http.StatusOK, s.groupList())
	}
}

// aggregate answers with all groups at once. The document is made once per content of the set.
func (s *surface) aggregate(w http.ResponseWriter, r *http.Request, acc accepted, legacy bool) {
	doc, err := s.aggregatedDoc(acc, legacy)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("ETag", doc.tag)
	w.Header().Set("Cache-Control", "public")
	if slices.Contains(strings.Split(r.Header.Get("If-None-Match"), ", "), doc.tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	s.write(w, r, http.StatusOK, acc.mediaType()+";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", doc.body)
}

func (s *surface) aggregatedDoc(acc accepted, legacy bool) (tagged, error) {
	groups := s.groups()
	key := fmt.Sprint(acc.format, legacy)
	own := s.docs.list(s.cfg.Kinds)
	cacheable := len(groups) == len(own) && (len(own) == 0 || &groups[0] == &own[0]) // nobody else's are among them
	if cacheable {
		if doc, ok := s.docs.get(key); ok {
			return doc, nil
		}
	}
	list := aggregated(groups, legacy)
	var body []byte
	var err error
	if acc.format == asProto {
		body, err = codec.MarshalProto(list)
	} else if body, err = codec.MarshalJSON(list); err == nil && acc.format == asYAML {
		body, err = toYAML(body)
	}
	if err != nil {
		return tagged{}, fmt.Errorf("encode discovery: %w", err)
	}
	doc := tagged{body: body, tag: fmt.Sprintf("%q", fmt.Sprintf("%X", sha512.Sum512(body)))}
	if cacheable {
		s.docs.put(key, own, doc)
	}
	return doc, nil
}

// issuer answers the public side of service account tokens.
func (s *surface) issuer(w http.ResponseWriter, r *http.Request, path string) {
	if s.cfg.Issuer == nil {
		notFoundPage(w)
		return
	}
	get, typ := s.cfg.Issuer.Configuration, codec.JSON
	if path == "/openid/v1/jwks" {
		get, typ = s.cfg.Issuer.Keys, "application/jwk-set+json"
	}
	doc, err := get()
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=3600")
	s.write(w, r, http.StatusOK, typ, doc)
}
