package resource

import (
	"math"
	"reflect"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Seconds is n seconds, or the longest time that can be told when that is more: a number that means "for ever" must not mean "never".
func Seconds(n int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Second)
	return time.Duration(min(max(n, -most), most)) * time.Second
}

// CutTimes rounds every time in obj down to what the wire keeps of it: seconds, and microseconds for MicroTime.
// Objects that are made in this process must pass here before they are stored: else the object at hand and the one
// that its stored bytes decode to would differ. What maps hold is not cut: no API type has times in one.
func CutTimes(obj Object) { cut(reflect.ValueOf(obj)) }

var (
	timeType  = reflect.TypeFor[metav1.Time]()
	microType = reflect.TypeFor[metav1.MicroTime]()
)

func cut(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			cut(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			cut(v.Index(i))
		}
	case reflect.Struct:
		if !cutTime(v) {
			for _, i := range timeFields(v.Type()) {
				cut(v.Field(i))
			}
		}
	}
}

// cutTime cuts a time. It reports whether v is one. One that is whole is not written, as it may be shared.
func cutTime(v reflect.Value) bool {
	switch v.Type() {
	case timeType:
		if t := v.Addr().Interface().(*metav1.Time); t.Nanosecond() != 0 {
			t.Time = t.Truncate(time.Second)
		}
	case microType:
		if t := v.Addr().Interface().(*metav1.MicroTime); t.Nanosecond()%1000 != 0 {
			t.Time = t.Truncate(time.Microsecond)
		}
	default:
		return false
	}
	return true
}

// knownTimeFields caches timeFields: the types of the API are few.
var knownTimeFields sync.Map // reflect.Type -> []int

// timeFields are the fields of a struct that lead to a time.
func timeFields(t reflect.Type) (fields []int) {
	if known, ok := knownTimeFields.Load(t); ok {
		return known.([]int)
	}
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() && leadsTo(f.Type, timeType, microType) {
			fields = append(fields, i)
		}
	}
	knownTimeFields.Store(t, fields)
	return fields
}
