package apply

import (
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/kloop-dev/kloop/internal/coldsort"
)

// A jsonField is a field as JSON sees it.
type jsonField struct {
	name  string
	t     reflect.Type
	index []int
	omit  func(reflect.Value) bool
}

// jsonFields returns the fields of a struct by name.
func jsonFields(t reflect.Type, at []int) (list []jsonField) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		if tag == "-" || f.PkgPath != "" && !f.Anonymous {
			continue
		}
		name, opts, _ := strings.Cut(tag, ",")
		index := append(slices.Clone(at), i)
		if f.Anonymous && name == "" {
			if f.Type.Kind() == reflect.Struct {
				list = append(list, jsonFields(f.Type, index)...)
			}
			continue
		}
		if name == "" {
			name = f.Name
		}
		list = append(list, jsonField{name, f.Type, index, omitter(f.Type, strings.Split(opts, ","))})
	}
	coldsort.Func(list, func(a, b jsonField) int { return strings.Compare(a.name, b.name) })
	return list
}

// omitter tells when a field is left out of JSON.
func omitter(t reflect.Type, opts []string) func(reflect.Value) bool {
	var zero func(reflect.Value) bool
	if slices.Contains(opts, "omitzero") {
		zero = value.OmitZeroFunc(t)
	}
	if !slices.Contains(opts, "omitempty") {
		return zero
	}
	empty := emptier(t)
	if zero == nil {
		return empty
	}
	if empty == nil {
		return zero
	}
	return func(v reflect.Value) bool { return empty(v) || zero(v) }
}

func emptier(t reflect.Type) func(reflect.Value) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface:
		return reflect.Value.IsNil
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return func(v reflect.Value) bool { return v.Len() == 0 }
	case reflect.Struct:
		return nil
	}
	return reflect.Value.IsZero
}
