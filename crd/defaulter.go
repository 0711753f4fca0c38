package crd

import (
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime"
)

// A defaulter sets the defaults of a schema. It holds the parts of the schema that have any; the library, whose rules these
// are, walks all of it every time, by value.
type defaulter struct {
	defaults    map[string]schemaDefault
	props       map[string]*defaulter
	known       map[string]bool // properties, which are not rest; nil if nothing is done to rest
	rest, items *defaulter
	restPreset  *schemaDefault // what stands for a null that may not be one
	itemPreset  *schemaDefault
}

type schemaDefault struct {
	value    any
	nullable bool
}

// newFiller returns nil for a schema without defaults.
func newFiller(s *structural.Structural) *defaulter {
	if s == nil {
		return nil
	}
	f := &defaulter{}
	for name, p := range s.Properties {
		if p.Default.Object != nil {
			put(&f.defaults, name, schemaDefault{p.Default.Object, p.Nullable})
		}
		if below := newFiller(&p); below != nil {
			put(&f.props, name, below)
		}
		put(&f.known, name, true)
	}
	if a := s.AdditionalProperties; a != nil {
		f.rest, f.restPreset = newFiller(a.Structural), presetOf(a.Structural)
	}
	f.items, f.itemPreset = newFiller(s.Items), presetOf(s.Items)
	if f.rest == nil && f.restPreset == nil {
		f.known = nil
	}
	if f.defaults == nil && f.props == nil && f.rest == nil && f.items == nil && f.restPreset == nil && f.itemPreset == nil {
		return nil
	}
	return f
}

func put[T any](m *map[string]T, name string, v T) {
	if *m == nil {
		*m = map[string]T{}
	}
	(*m)[name] = v
}

// presetOf returns the replacement for a null that the schema does not allow; nil if it may stay, or there is nothing else.
func presetOf(s *structural.Structural) *schemaDefault {
	if s == nil || s.Nullable || s.Default.Object == nil {
		return nil
	}
	return &schemaDefault{value: s.Default.Object}
}

func (f *defaulter) fill(v any) {
	if f == nil {
		return
	}
	switch x := v.(type) {
	case map[string]any:
		for name, p := range f.defaults {
			if is, has := x[name]; !has || is == nil && !p.nullable {
				x[name] = runtime.DeepCopyJSONValue(p.value)
			}
		}
		for name, below := range f.props {
			below.fill(x[name])
		}
		if f.rest == nil && f.restPreset == nil {
			return
		}
		for name, is := range x {
			if f.known[name] {
				continue
			}
			if is == nil && f.restPreset != nil {
				is = runtime.DeepCopyJSONValue(f.restPreset.value)
				x[name] = is
			}
			f.rest.fill(is)
		}
	case []any:
		for i := range x {
			if x[i] == nil && f.itemPreset != nil {
				x[i] = runtime.DeepCopyJSONValue(f.itemPreset.value)
			}
			f.items.fill(x[i])
		}
	}
}
