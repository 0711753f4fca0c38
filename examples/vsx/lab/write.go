package lab

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// write does a request that changes something, and has the judge look at it.
func (s *Switch) write(w http.ResponseWriter, r *http.Request, path string, body []byte) {
	d := deed{method: r.Method, path: path, before: s.lab.seen(), worse: s.lab.judge.worse, old: s.tree[path]}
	var code int
	code, d.err = s.apply(r.Method, path, body, r.URL.Query().Get("from"))
	if d.err != nil {
		http.Error(w, d.err.Error(), code)
	} else {
		s.changes++
		w.WriteHeader(code)
	}
	s.lab.settle()
	s.lab.judge.write(s.lab, s, d)
}

var lagNames = regexp.MustCompile(`^(lag([1-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-6])|vlan[1-9][0-9]{0,3})$`)

// apply changes the configuration. It answers as the documents say; it checks no meaning, for switches check none either.
func (s *Switch) apply(method, path string, body []byte, from string) (int, error) {
	switch {
	case method == http.MethodPut && path == "fullconfigs/startup-config":
		if !strings.HasSuffix(from, "/fullconfigs/running-config") {
			return http.StatusBadRequest, fmt.Errorf("from %q: only the running configuration is taken", from)
		}
		s.startup = s.tree.clone()
		return http.StatusNoContent, nil
	case method == http.MethodPost:
		return s.post(path, body)
	case method == http.MethodPut:
		return s.put(path, body)
	}
	return http.StatusMethodNotAllowed, fmt.Errorf("the simulated switch has no %s", method)
}

func (s *Switch) post(path string, body []byte) (int, error) {
	kind := kindOf(path)
	r, err := s.parse(kind, body)
	if err != nil {
		return http.StatusBadRequest, err
	}
	at := path
	switch path {
	case "system/vsx":
		if r["device_role"] == nil || r["isl_port"] == nil {
			return http.StatusBadRequest, fmt.Errorf("device_role and isl_port are needed")
		}
	case "system/vlans":
		at = fmt.Sprintf("%s/%d", path, number(r["id"]))
	case "system/vrfs", "system/interfaces":
		name, _ := r["name"].(string)
		if name == "" || path == "system/interfaces" && !lagNames.MatchString(name) {
			return http.StatusBadRequest, fmt.Errorf("can not create %q", name)
		}
		at = path + "/" + name
	default:
		return http.StatusNotFound, fmt.Errorf("no such collection")
	}
	if s.tree[at] != nil {
		return http.StatusBadRequest, fmt.Errorf("%s exists already", at)
	}
	s.tree[at] = r
	return http.StatusCreated, nil
}

// put replaces a resource: what is left out falls back to its default.
func (s *Switch) put(path string, body []byte) (int, error) {
	old := s.tree[path]
	if old == nil {
		return http.StatusNotFound, fmt.Errorf("no such resource")
	}
	r, err := s.parse(kindOf(path), body)
	if err != nil {
		return http.StatusBadRequest, err
	}
	if path == "system/vsx" && (r["device_role"] == nil || r["isl_port"] == nil) {
		return http.StatusBadRequest, fmt.Errorf("device_role and isl_port can not be taken away")
	}
	for k, v := range old { // what can not be written stays
		if k == "name" || k == "type" || k == "id" || path == "system" {
			if _, ok := r[k]; !ok {
				r[k] = v
			}
		}
	}
	s.tree[path] = r
	return http.StatusOK, nil
}
