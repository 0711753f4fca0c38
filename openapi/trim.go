package openapi

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/openapi/older"
)

// Trim takes out of an object of a built-in kind the fields that the version does not have, and returns their paths as those of
// unknown fields are named: spec.containers[0].name. The newest version has all.
func Trim(on *features.Set, obj any) (unknown []string) {
	if !on.Emulates() {
		return nil
	}
	t := trimmer{gone: gone()}
	if len(t.gone) > 0 {
		t.value(reflect.ValueOf(obj), "")
	}
	return t.unknown
}

// gone are the fields that only the newest version has, by schema.
var gone = sync.OnceValue(func() map[string][]string {
	diff, err := differences()
	if err != nil {
		return nil
	}
	all := map[string][]string{}
	for name, patch := range diff.Schemas {
		if fields := older.Gone(patch); len(fields) > 0 {
			all[name] = fields
		}
	}
	return all
})

type trimmer struct {
	gone    map[string][]string
	unknown []string
}

func (t *trimmer) value(v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			t.value(v.Elem(), path)
		}
	case reflect.Struct:
		t.fields(v, path, t.gone[schemaOf(v.Type())])
	case reflect.Slice:
		if within(v.Type().Elem()) {
			for i := range v.Len() {
				t.value(v.Index(i), fmt.Sprintf("%s[%d]", path, i))
			}
		}
	}
}

// fields looks into those of a struct. What is inlined has them in the schema of what is around.
func (t *trimmer) fields(v reflect.Value, path string, gone []string) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := v.Field(i)
		if options == "inline" || name == "" {
			if f.Type.Kind() == reflect.Struct && f.IsExported() {
				t.fields(inner, path, slices.Concat(gone, t.gone[schemaOf(f.Type)]))
			}
			continue
		}
		at := strings.TrimPrefix(path+"."+name, ".")
		for _, lost := range gone {
			if lost == name && !inner.IsZero() {
				inner.SetZero()
				t.unknown = append(t.unknown, at)
			}
		}
		if within(f.Type) {
			t.value(inner, at)
		}
	}
}

// within says whether a type may have fields of the API in it: types of other modules have not changed.
func within(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct && strings.HasPrefix(t.PkgPath(), "k8s.io/api/")
}

// schemaOf names the schema of a type: io.k8s.api.core.v1.PodSpec.
func schemaOf(t reflect.Type) string {
	rest, ok := strings.CutPrefix(t.PkgPath(), "k8s.io/")
	if !ok {
		return ""
	}
	return "io.k8s." + strings.ReplaceAll(rest, "/", ".") + "." + t.Name()
}
