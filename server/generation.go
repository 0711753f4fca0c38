package server

import (
	"reflect"
	"sync"

	"github.com/kloop-dev/kloop/resource"
)

// specFields caches which fields of a type count for its generation.
var specFields sync.Map // reflect.Type → []int

// respecified says whether two objects differ outside of type, metadata and status.
func respecified(k resource.Kind, obj, old resource.Object) bool {
	if a, ok := content(obj); ok {
		b, _ := content(old)
		return respecifiedMap(k, a, b)
	}
	x, y := reflect.ValueOf(obj).Elem(), reflect.ValueOf(old).Elem()
	for _, i := range specFieldsOf(x.Type()) {
		if !resource.Same(x.Field(i).Addr().Interface(), y.Field(i).Addr().Interface()) ||
			k.Info().EmptyCounts && holdsEmpty(x.Field(i)) {
			return true
		}
	}
	return false
}

// holdsEmpty says whether there is a list or map with nothing in it: what is read from the store has none instead.
func holdsEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		if v.Len() == 0 {
			return !v.IsNil() && v.Type().Elem().Kind() != reflect.Uint8
		}
		if v.Kind() == reflect.Map {
			return false // of text, in all kinds that are asked
		}
		for i := range v.Len() {
			if holdsEmpty(v.Index(i)) {
				return true
			}
		}
	case reflect.Pointer:
		return !v.IsNil() && holdsEmpty(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if holdsEmpty(v.Field(i)) {
				return true
			}
		}
	}
	return false
}

func specFieldsOf(t reflect.Type) []int {
	if v, ok := specFields.Load(t); ok {
		return v.([]int)
	}
	var list []int
	for i := range t.NumField() {
		switch f := t.Field(i); {
		case !f.IsExported(), f.Name == "TypeMeta", f.Name == "ObjectMeta", f.Name == "Status":
		default:
			list = append(list, i)
		}
	}
	specFields.Store(t, list)
	return list
}

// content returns the tree of an untyped object.
func content(obj resource.Object) (map[string]any, bool) {
	u, ok := obj.(interface{ UnstructuredContent() map[string]any })
	if !ok {
		return nil, false
	}
	return u.UnstructuredContent(), true
}

func respecifiedMap(k resource.Kind, a, b map[string]any) bool {
	_, hasStatus := k.Info().Sub("status")
	counts := func(key string) bool {
		switch key {
		case "apiVersion", "kind", "metadata":
			return false
		case "status":
			return !hasStatus
		}
		return true
	}
	for key, v := range a {
		if counts(key) && !reflect.DeepEqual(v, b[key]) {
			return true
		}
	}
	for key := range b {
		if _, has := a[key]; !has && counts(key) {
			return true
		}
	}
	return false
}
