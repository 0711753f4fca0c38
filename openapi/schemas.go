package openapi

import (
	_ "embed"
	"encoding/json"
	"strings"
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/openapi/packed"
)

//go:embed schemas.json.gz
var newest []byte

// library holds the schemas of all built-in types as JSON text, in v3 form: of the newest version, as the file has them.
type library struct {
	Kinds   map[string]string          `json:"kinds"` // group/version/kind to the name of its schema
	Schemas map[string]json.RawMessage `json:"schemas"`
	V2      map[string]json.RawMessage `json:"v2"` // where the old format has another one
}

// shelf lends the library out: 2 MB that come back from the binary in some 25 ms when they were dropped.
type shelf struct {
	mu  sync.Mutex
	lib weak.Pointer[library]
}

var books shelf

func (s *shelf) open() (*library, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.lib.Value(); l != nil {
		return l, nil
	}
	l := &library{}
	if err := packed.Unpack(newest, l); err != nil {
		return nil, err
	}
	s.lib = weak.Make(l)
	return l, nil
}

func kindKey(gvk schema.GroupVersionKind) string {
	return gvk.Group + "/" + gvk.Version + "/" + gvk.Kind
}

const refPrefix = "#/components/schemas/"

// refs yields the names of the schemas that a schema's text refers to.
func refs(raw []byte) func(func(string) bool) {
	return func(yield func(string) bool) {
		rest := string(raw)
		for {
			_, after, ok := strings.Cut(rest, `"`+refPrefix)
			if !ok {
				return
			}
			name, tail, _ := strings.Cut(after, `"`)
			if !yield(name) {
				return
			}
			rest = tail
		}
	}
}

// closure adds everything that the named schemas need to the set.
func closure(find func(string) (json.RawMessage, bool), set map[string]json.RawMessage, names ...string) {
	for _, n := range names {
		if _, done := set[n]; done || n == "" {
			continue
		}
		raw, ok := find(n)
		if !ok {
			continue
		}
		set[n] = raw
		for r := range refs(raw) {
			closure(find, set, r)
		}
	}
}
