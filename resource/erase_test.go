package resource

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Whatever a Def says, its rules say too: a field that erase forgets would do nothing.
func TestErase(t *testing.T) {
	var d Def[*corev1.Event]
	full(t, reflect.ValueOf(&d).Elem())
	empty(t, "Def", reflect.ValueOf(d.rules().def).Elem())
}

// full sets every exported field below v.
func full(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("x")
	case reflect.Int32:
		v.SetInt(1)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	case reflect.Func:
		v.Set(reflect.MakeFunc(v.Type(), func([]reflect.Value) []reflect.Value { panic("called") }))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		full(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		full(t, v.Index(0))
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				full(t, v.Field(i))
			}
		}
	default:
		t.Fatalf("no value for %s", v.Type())
	}
}

// empty tells which exported fields below v are not set.
func empty(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Pointer:
		empty(t, path, v.Elem())
		return
	case reflect.Slice:
		if v.Len() > 0 {
			empty(t, path+"[0]", v.Index(0))
			return
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				empty(t, path+"."+f.Name, v.Field(i))
			}
		}
		return
	}
	if v.IsZero() {
		t.Errorf("%s is lost", path)
	}
}
