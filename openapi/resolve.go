package openapi

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/kloop-dev/kloop/features"
)

// Resolved returns the schema of a built-in kind, as a cluster of the version has it, with everything in it that it refers to, as
// type checks want it; nil when there is no such kind. A type within itself is an object without fields there.
func Resolved(on *features.Set, gvk schema.GroupVersionKind) (*spec.Schema, error) {
	book, err := openEdition(on)
	if err != nil {
		return nil, err
	}
	name, ok := book.Kinds[kindKey(gvk)]
	if !ok {
		return nil, nil
	}
	r := resolver{book: book, read: map[string]*spec.Schema{}, inside: map[string]bool{}}
	s, err := r.named(name)
	if err != nil {
		return nil, fmt.Errorf("resolve the schema of %s: %w", gvk, err)
	}
	return &s, nil
}

// resolver puts the types in the places of their names.
type resolver struct {
	book   *edition
	read   map[string]*spec.Schema
	inside map[string]bool // the types that are being resolved
}

func (r *resolver) named(name string) (spec.Schema, error) {
	if r.inside[name] {
		return *new(spec.Schema).Typed("object", ""), nil
	}
	r.inside[name] = true
	defer delete(r.inside, name)
	s := r.read[name]
	if s == nil {
		s = &spec.Schema{}
		raw, _ := r.book.v3(name)
		if err := json.Unmarshal(raw, s); err != nil {
			return *s, fmt.Errorf("read %s: %w", name, err)
		}
		r.read[name] = s
	}
	return r.within(*s)
}

// within resolves what a schema refers to. What it was given stays as it is.
func (r *resolver) within(s spec.Schema) (out spec.Schema, err error) {
	if name := refName(&s); name != "" {
		return r.named(name)
	}
	props := make(map[string]spec.Schema, len(s.Properties))
	for name, p := range s.Properties {
		if props[name], err = r.within(p); err != nil {
			return s, err
		}
	}
	s.Properties = props
	if s.Items != nil && s.Items.Schema != nil {
		item, err := r.within(*s.Items.Schema)
		if err != nil {
			return s, err
		}
		s.Items = &spec.SchemaOrArray{Schema: &item}
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		value, err := r.within(*s.AdditionalProperties.Schema)
		if err != nil {
			return s, err
		}
		s.AdditionalProperties = &spec.SchemaOrBool{Allows: true, Schema: &value}
	}
	return s, nil
}

// refName is the type that a schema stands for; a reference with a description is one of allOf.
func refName(s *spec.Schema) string {
	if name, ok := strings.CutPrefix(s.Ref.String(), refPrefix); ok {
		return name
	}
	for i := range s.AllOf {
		if name, ok := strings.CutPrefix(s.AllOf[i].Ref.String(), refPrefix); ok {
			return name
		}
	}
	return ""
}
