package lab

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// What a switch allows.
const (
	maxSessions = 6 // of a user
	idle        = 20 * time.Minute
	maxBody     = 1 << 20

	user, password = "admin", "admin"
)

type session struct {
	token string
	used  time.Time
}

// ServeHTTP implements http.Handler.
func (s *Switch) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return
	}
	s.lab.mu.Lock()
	defer s.lab.mu.Unlock()
	if !s.up() {
		panic(http.ErrAbortHandler) // nobody answers
	}
	s.lab.settle()
	version, path, ok := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/rest/"), "/")
	if !ok || !strings.HasPrefix(version, "v10.") {
		http.Error(w, "no such version", http.StatusNotFound)
		return
	}
	if path, err = unescape(path); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	switch {
	case path == "login" && r.Method == http.MethodPost:
		s.login(w, body)
	case !s.known(r):
		http.Error(w, "Authorization Required", http.StatusUnauthorized)
	case path == "logout" && r.Method == http.MethodPost:
		delete(s.sessions, cookie(r))
	case r.Method == http.MethodGet:
		s.get(w, r.URL.Query(), version, path)
	case s.denied:
		http.Error(w, "read-only", http.StatusNotFound)
	default:
		s.write(w, r, path, body)
	}
}

// unescape decodes a path; an escaped slash is part of a name, and names are the rest of the path here.
func unescape(path string) (string, error) { return url.PathUnescape(path) }

func cookie(r *http.Request) string {
	if c, err := r.Cookie("id"); err == nil {
		return c.Value
	}
	return ""
}

func (s *Switch) login(w http.ResponseWriter, body []byte) {
	form, err := url.ParseQuery(string(body))
	if err != nil || form.Get("username") != user || form.Get("password") != password {
		http.Error(w, "Login failed", http.StatusUnauthorized)
		return
	}
	now := s.lab.now()
	for id, old := range s.sessions {
		if now.Sub(old.used) > idle {
			delete(s.sessions, id)
		}
	}
	if len(s.sessions) >= maxSessions {
		http.Error(w, "Login failed: session limit reached", http.StatusUnauthorized)
		return
	}
	s.issued++
	id, token := fmt.Sprintf("%d-%s", s.issued, rand.Text()), rand.Text()
	s.sessions[id] = session{token, now}
	http.SetCookie(w, &http.Cookie{Name: "id", Value: id, Path: "/", HttpOnly: true})
	w.Header().Set("X-Csrf-Token", token)
}

// known says that the request belongs to a session.
func (s *Switch) known(r *http.Request) bool {
	id := cookie(r)
	was, ok := s.sessions[id]
	now := s.lab.now()
	if !ok || now.Sub(was.used) > idle || r.Header.Get("X-Csrf-Token") != was.token {
		return false
	}
	was.used = now
	s.sessions[id] = was
	return true
}

func (s *Switch) get(w http.ResponseWriter, q url.Values, version, path string) {
	var out any
	switch path {
	case "system/vrfs", "system/vlans", "system/interfaces":
		m := map[string]any{}
		coll := strings.TrimPrefix(path, "system/")
		for p, r := range s.tree {
			if name, ok := strings.CutPrefix(p, path+"/"); ok {
				m[name] = uri(version, coll, name)
				if q.Get("depth") == "2" {
					m[name] = s.render(version, r)
				}
			}
		}
		out = m
	case "fullconfigs/running-config":
		out = s.full(version, s.tree)
	case "fullconfigs/startup-config":
		if s.startup == nil {
			http.Error(w, "no startup configuration", http.StatusNotFound)
			return
		}
		out = s.full(version, s.startup)
	default:
		r := s.tree[path]
		if r == nil {
			http.Error(w, "no such resource", http.StatusNotFound)
			return
		}
		out = choose(s.render(version, s.shown(path, r)), q, kindOf(path))
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out) // the client went
}

// shown is a resource with what the switch itself says of it.
func (s *Switch) shown(path string, r resource) resource {
	all := resource{}
	for k, v := range r {
		all[k] = v
	}
	name, isPort := cutInterface(path)
	switch {
	case isPort:
		all["link_state"] = "down"
		if r["type"] == "lag" && s.lagUp(name) || r["type"] == "system" && s.portUp(name) || r["type"] == "vlan" && s.adminUp(name) {
			all["link_state"] = "up"
		}
	case path == "system/vsx":
		for k, v := range s.status() {
			all[k] = v
		}
	case path == "system":
		all["last_configuration_time"] = s.changes
	}
	return all
}

// choose keeps the attributes that were asked for.
func choose(all map[string]any, q url.Values, kind string) map[string]any {
	if list := q.Get("attributes"); list != "" {
		some := map[string]any{}
		for _, k := range strings.Split(list, ",") {
			if v, ok := all[k]; ok {
				some[k] = v
			}
		}
		return some
	}
	if sel := q.Get("selector"); sel == "writable" || sel == "configuration" {
		for k := range all {
			if !slices.Contains(writable[kind], k) || sel == "writable" && (k == "name" || k == "type" || k == "id") {
				delete(all, k)
			}
		}
	}
	return all
}

// full is a whole configuration.
func (s *Switch) full(version string, t tree) map[string]any {
	out := map[string]any{}
	for path, r := range t {
		out[path] = s.render(version, r)
	}
	return out
}
