// Package older turns the OpenAPI schemas of one version of Kubernetes into those of the one before: by a rule for what the
// generators of the two do differently, and a patch (RFC 7386) for what differs in the types.
package older

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
)

// A Schema is the JSON of one: what encoding/json makes of it.
type Schema = map[string]any

// Differences is the content of the file of a version: a patch for each schema that is not the same, null where there is none.
type Differences struct {
	Schemas map[string]json.RawMessage `json:"schemas"`
	V2      map[string]json.RawMessage `json:"v2"` // for the old format, where it has a schema of its own
}

// Apply makes the older schema from the newer; ok is false when there was none. One of newer and patch may be nil.
func Apply(newer, patch json.RawMessage) (older json.RawMessage, ok bool, err error) {
	if string(patch) == "null" {
		return nil, false, nil
	}
	var s Schema
	if newer != nil {
		if s, err = read(newer); err != nil {
			return nil, false, err
		}
		Fill(s)
	}
	if patch != nil {
		p, err := read(patch)
		if err != nil {
			return nil, false, err
		}
		s = Merge(s, p)
	}
	older, err = json.Marshal(s)
	return older, true, err
}

func read(raw json.RawMessage) (s Schema, err error) {
	if err = json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("read a schema: %w", err)
	}
	return s, nil
}

// scalars are models whose values are no JSON objects; they have no default.
var scalars = []string{"api.resource.Quantity", "meta.v1.Time", "meta.v1.MicroTime", "util.intstr.IntOrString", "runtime.RawExtension"}

// Fill gives what is in lists and maps its zero as default, as the generator did up to 1.36. Such a default never takes effect.
func Fill(s Schema) {
	for _, of := range []string{"items", "additionalProperties"} {
		if item, ok := s[of].(Schema); ok {
			s[of] = filled(item)
		}
	}
	props, _ := s["properties"].(Schema)
	for _, p := range props {
		if p, ok := p.(Schema); ok {
			Fill(p)
		}
	}
}

func filled(s Schema) Schema {
	if name, ok := s["$ref"].(string); ok {
		for _, scalar := range scalars {
			if strings.HasSuffix(name, scalar) {
				return s
			}
		}
		return Schema{"allOf": []any{s}, "default": Schema{}}
	}
	switch _, formatted := s["format"]; {
	case s["type"] == "string" && !formatted:
		s["default"] = ""
	case s["type"] == "integer":
		s["default"] = 0.0
	case s["type"] == "boolean":
		s["default"] = false
	}
	Fill(s)
	return s
}

// Merge applies a patch. doc is changed.
func Merge(doc, patch Schema) Schema {
	if doc == nil {
		doc = Schema{}
	}
	for key, to := range patch {
		inner, ok := to.(Schema)
		switch {
		case to == nil:
			delete(doc, key)
		case ok:
			of, _ := doc[key].(Schema)
			doc[key] = Merge(of, inner)
		default:
			doc[key] = to
		}
	}
	return doc
}

// Diff is the patch that makes to of from; nil when they are the same.
func Diff(from, to Schema) Schema {
	patch := Schema{}
	for key := range from {
		if _, stays := to[key]; !stays {
			patch[key] = nil
		}
	}
	for key, want := range to {
		is, had := from[key]
		a, isObject := is.(Schema)
		b, wantsObject := want.(Schema)
		switch {
		case had && reflect.DeepEqual(is, want):
		case isObject && wantsObject:
			patch[key] = Diff(a, b)
		default:
			patch[key] = want
		}
	}
	if len(patch) == 0 {
		return nil
	}
	return patch
}

// Gone are the fields of a schema that the older version does not have, by the patch.
func Gone(patch json.RawMessage) (fields []string) {
	var p struct{ Properties map[string]json.RawMessage }
	if json.Unmarshal(patch, &p) != nil {
		return nil
	}
	for name := range maps.Keys(p.Properties) {
		if string(p.Properties[name]) == "null" {
			fields = append(fields, name)
		}
	}
	return fields
}
