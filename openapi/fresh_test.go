package openapi

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/kinds"
)

// A typeSchema is what TestFresh reads of a schema.
type typeSchema struct {
	Ref        string                `json:"$ref"`
	AllOf      []typeSchema          `json:"allOf"`
	Properties map[string]typeSchema `json:"properties"`
	Items      *typeSchema           `json:"items"`
	Additional *typeSchema           `json:"additionalProperties"`
}

// A mirror compares types with schemas, each type once.
type mirror struct {
	t    *testing.T
	lib  *library
	seen map[reflect.Type]bool
}

// TestFresh: the generated schemas are those of the types that the program is built with. A module that brings a field takes
// "go generate ./openapi".
func TestFresh(t *testing.T) {
	lib, err := books.open()
	if err != nil {
		t.Fatal(err)
	}
	m := &mirror{t, lib, map[reflect.Type]bool{}}
	for _, k := range kinds.NewSet().All() {
		for _, gvk := range append([]schema.GroupVersionKind{k.Info().GVK}, k.Info().Also...) {
			if name := lib.Kinds[kindKey(gvk)]; name != "" {
				m.compare(gvk.Kind, reflect.TypeOf(k.New(gvk)).Elem(), typeSchema{Ref: refPrefix + name})
			} else if !strings.Contains(gvk.Group, "kloop") {
				t.Errorf("no schema of %s", gvk)
			}
		}
	}
	if len(m.seen) < 500 {
		t.Errorf("only %d types were compared", len(m.seen))
	}
}

// resolve follows references.
func (m *mirror) resolve(s typeSchema) typeSchema {
	for len(s.AllOf) == 1 || s.Ref != "" {
		if s.Ref == "" {
			s = s.AllOf[0]
			continue
		}
		var next typeSchema
		if err := json.Unmarshal(m.lib.Schemas[strings.TrimPrefix(s.Ref, refPrefix)], &next); err != nil {
			m.t.Fatalf("%s: %v", s.Ref, err)
		}
		s = next
	}
	return s
}

func (m *mirror) compare(path string, t reflect.Type, s typeSchema) {
	s = m.resolve(s)
	switch t.Kind() {
	case reflect.Pointer:
		m.compare(path, t.Elem(), s)
	case reflect.Slice:
		if s.Items != nil {
			m.compare(path+"[]", t.Elem(), *s.Items)
		}
	case reflect.Map:
		if s.Additional != nil {
			m.compare(path+"{}", t.Elem(), *s.Additional)
		}
	case reflect.Struct:
		if len(s.Properties) == 0 || m.seen[t] {
			return // it writes itself: a time, a quantity
		}
		m.seen[t] = true
		fields := map[string]reflect.Type{}
		jsonFields(t, fields)
		for name, f := range fields {
			if of, ok := s.Properties[name]; ok {
				m.compare(path+"."+name, f, of)
			} else {
				m.t.Errorf("%s.%s is in no schema: go generate ./openapi", path, name)
			}
		}
		for name := range s.Properties {
			if fields[name] == nil {
				m.t.Errorf("the schema of %s names %s, which the type does not have: go generate ./openapi", path, name)
			}
		}
	}
}

// jsonFields collects the fields of a struct by their names in JSON.
func jsonFields(t reflect.Type, into map[string]reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case f.Anonymous && name == "" || strings.Contains(opts, "inline"):
			jsonFields(f.Type, into)
		case name != "":
			into[name] = f.Type
		}
	}
}
