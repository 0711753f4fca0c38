package aggregator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
)

// A swagger is an OpenAPI v2 document, whose parts stay text.
type swagger struct {
	rest        map[string]json.RawMessage
	paths, defs map[string]json.RawMessage
}

func readSwagger(doc []byte) (*swagger, error) {
	s := &swagger{}
	if err := json.Unmarshal(doc, &s.rest); err != nil {
		return nil, err
	}
	for name, to := range map[string]*map[string]json.RawMessage{"paths": &s.paths, "definitions": &s.defs} {
		*to = map[string]json.RawMessage{}
		if raw, ok := s.rest[name]; ok {
			if err := json.Unmarshal(raw, to); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		delete(s.rest, name)
	}
	return s, nil
}

func (s *swagger) text() ([]byte, error) {
	all := map[string]any{"paths": s.paths, "definitions": s.defs}
	for name, raw := range s.rest {
		all[name] = raw
	}
	return json.Marshal(all)
}

var definitionName = regexp.MustCompile(`"#/definitions/([^"]+)"`)

// named lists the definitions that a text refers to.
func named(raw json.RawMessage) (list []string) {
	for _, m := range definitionName.FindAllSubmatch(raw, -1) {
		list = append(list, strings.ReplaceAll(string(m[1]), "~1", "/"))
	}
	return list
}

// narrow keeps the paths of a group version, and the definitions that they need.
func (s *swagger) narrow(root string) {
	var todo []string
	for path, raw := range s.paths {
		if path != root && !strings.HasPrefix(path, root+"/") {
			delete(s.paths, path)
			continue
		}
		todo = append(todo, named(raw)...)
	}
	keep := map[string]json.RawMessage{}
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		if raw, ok := s.defs[name]; ok && keep[name] == nil {
			keep[name] = raw
			todo = append(todo, named(raw)...)
		}
	}
	s.defs = keep
}

// add takes in the paths of another document that are not here yet, with their definitions. A definition whose name means
// something else here gets another name; the types that all servers share are believed to be the same.
func (s *swagger) add(o *swagger) {
	rename := map[string]string{}
	for name, raw := range o.defs {
		have, taken := s.defs[name]
		if taken && !strings.HasPrefix(name, "io.k8s.apimachinery.") && !sameJSON(have, raw) {
			rename[name] = s.free(name)
		}
	}
	renamed := func(raw json.RawMessage) json.RawMessage {
		for from, to := range rename {
			raw = bytes.ReplaceAll(raw, []byte(refersTo(from)), []byte(refersTo(to)))
		}
		return raw
	}
	for name, raw := range o.defs {
		if to, ok := rename[name]; ok {
			s.defs[to] = renamed(raw)
		} else if _, taken := s.defs[name]; !taken {
			s.defs[name] = renamed(raw)
		}
	}
	for path, raw := range o.paths {
		if _, taken := s.paths[path]; !taken {
			s.paths[path] = renamed(raw)
		}
	}
}

// free finds a name that nothing has.
func (s *swagger) free(name string) string {
	for i := 2; ; i++ {
		next := fmt.Sprintf("%s_v%d", name, i)
		if _, taken := s.defs[next]; !taken {
			return next
		}
	}
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
