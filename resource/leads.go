package resource

import (
	"reflect"
	"slices"
)

// leadsTo says whether a value of a type may hold one of other types, at any depth. What an interface holds is not known, and not
// looked for.
func leadsTo(t reflect.Type, wanted ...reflect.Type) bool {
	return leads(t, wanted, map[reflect.Type]bool{})
}

// leads is leadsTo for types that were not seen yet: those that hold themselves are looked at once.
func leads(t reflect.Type, wanted []reflect.Type, seen map[reflect.Type]bool) bool {
	if t = bare(t); t == nil || seen[t] {
		return false
	}
	if slices.Contains(wanted, t) {
		return true
	}
	switch t.Kind() {
	case reflect.Array:
		return leads(t.Elem(), wanted, seen)
	case reflect.Map:
		return leads(t.Key(), wanted, seen) || leads(t.Elem(), wanted, seen)
	case reflect.Struct:
		seen[t] = true
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() && leads(f.Type, wanted, seen) {
				return true
			}
		}
	}
	return false
}

// bare is the type of the elements of a list, or of what a pointer points to; others are themselves.
func bare(t reflect.Type) reflect.Type {
	for t != nil && (t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice) {
		t = t.Elem()
	}
	return t
}
