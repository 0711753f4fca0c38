package resource

import (
	"reflect"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CutTimes rounds every time in obj down to what the wire keeps of it: seconds, and microseconds for MicroTime.
// Objects that are made in this process must pass here before they are stored: else the object at hand and the one
// that its stored bytes decode to would differ.
func CutTimes(obj Object) { cut(reflect.ValueOf(obj)) }

var (
	timeType  = reflect.TypeFor[metav1.Time]()
	microType = reflect.TypeFor[metav1.MicroTime]()
	timed     sync.Map // reflect.Type → bool: may a value of the type hold a time
)

func cut(v reflect.Value) {
	if !holdsTime(v.Type()) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			cut(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			cut(v.Index(i))
		}
	case reflect.Struct:
		switch {
		case v.Type() == timeType && v.CanSet():
			if t := v.Addr().Interface().(*metav1.Time); t.Nanosecond() != 0 { // what is whole may be shared
				t.Time = t.Truncate(time.Second)
			}
		case v.Type() == microType && v.CanSet():
			if t := v.Addr().Interface().(*metav1.MicroTime); t.Nanosecond()%1000 != 0 {
				t.Time = t.Truncate(time.Microsecond)
			}
		default:
			for i := range v.NumField() {
				cut(v.Field(i))
			}
		}
	}
}

// holdsTime looks through a type once. Maps are left out: no API type has times in one. A type that refers to itself
// counts as holding one while it is looked at, which costs a walk and nothing else.
func holdsTime(t reflect.Type) bool {
	if t == timeType || t == microType {
		return true
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return holdsTime(t.Elem())
	case reflect.Struct:
	default:
		return false
	}
	if known, ok := timed.Load(t); ok {
		return known.(bool)
	}
	timed.Store(t, true)
	holds := false
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() && holdsTime(f.Type) {
			holds = true
		}
	}
	timed.Store(t, holds)
	return holds
}
