package apply

import (
	"bytes"
	"reflect"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// An equal compares two values of a type the way their JSON would compare, but for what lies in lists: there an empty list or map that
// JSON would leave out is not one that is missing. Pointers are followed by equalOf.
type equal func(a, b reflect.Value) bool

// equals remembers the comparisons of types, outside of lists and in them. Recursive types refer to themselves through it.
var equals [2]sync.Map

const outside, inList = 0, 1

// equalOf returns the comparison of a type.
func equalOf(t reflect.Type) equal { return equalAt(t, outside) }

func equalAt(t reflect.Type, where int) equal {
	if f, ok := equals[where].Load(t); ok {
		return f.(equal)
	}
	var f equal
	var once sync.Once
	equals[where].Store(t, equal(func(a, b reflect.Value) bool { // for the time being, and for recursion
		once.Do(func() { f = makeEqual(t, where) })
		return f(a, b)
	}))
	made := makeEqual(t, where)
	equals[where].Store(t, made)
	return made
}

func makeEqual(t reflect.Type, where int) equal {
	if f, ok := scalarTypes[t]; ok {
		return f
	}
	if value.TypeReflectEntryOf(t).CanConvertToUnstructured() && t.Kind() != reflect.Pointer {
		return equalConverted
	}
	switch t.Kind() {
	case reflect.Pointer:
		elem := equalAt(t.Elem(), where)
		return func(a, b reflect.Value) bool {
			if a.IsNil() || b.IsNil() {
				return a.IsNil() == b.IsNil()
			}
			if a.Pointer() == b.Pointer() {
				return true
			}
			return elem(a.Elem(), b.Elem())
		}
	case reflect.Struct:
		return equalStruct(t, where)
	case reflect.Map:
		return equalMap(t, where)
	case reflect.Slice:
		return equalSlice(t)
	case reflect.String:
		return func(a, b reflect.Value) bool { return a.String() == b.String() }
	case reflect.Bool:
		return func(a, b reflect.Value) bool { return a.Bool() == b.Bool() }
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return func(a, b reflect.Value) bool { return a.Int() == b.Int() }
	}
	return func(a, b reflect.Value) bool { return reflect.DeepEqual(a.Interface(), b.Interface()) }
}

func equalStruct(t reflect.Type, where int) equal {
	type fieldEqual struct {
		jsonField
		eq equal
	}
	var list []fieldEqual
	for _, f := range jsonFields(t, nil) {
		list = append(list, fieldEqual{f, equalAt(f.t, where)})
	}
	return func(a, b reflect.Value) bool {
		for i := range list {
			f := &list[i]
			x, y := fieldAt(a, f.index), fieldAt(b, f.index)
			if f.omit != nil && where == outside {
				if out := f.omit(x); out != f.omit(y) {
					return false
				} else if out {
					continue
				}
			}
			if !f.eq(x, y) {
				return false
			}
		}
		return true
	}
}

func equalMap(t reflect.Type, where int) equal {
	elem := equalAt(t.Elem(), where)
	return func(a, b reflect.Value) bool {
		if a.IsNil() != b.IsNil() || a.Len() != b.Len() {
			return false
		}
		for it := a.MapRange(); it.Next(); {
			other := b.MapIndex(it.Key())
			if !other.IsValid() || !elem(it.Value(), other) {
				return false
			}
		}
		return true
	}
}

func equalSlice(t reflect.Type) equal {
	if t.Elem().Kind() == reflect.Uint8 {
		return func(a, b reflect.Value) bool {
			return a.IsNil() == b.IsNil() && bytes.Equal(a.Bytes(), b.Bytes())
		}
	}
	where := inList
	if strings.HasPrefix(t.Elem().PkgPath(), "k8s.io/apiextensions-apiserver/") { // stored as JSON, which leaves out what is empty
		where = outside
	}
	elem := equalAt(t.Elem(), where)
	return func(a, b reflect.Value) bool {
		if a.IsNil() != b.IsNil() || a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !elem(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	}
}

// equalConverted compares by what the values write.
func equalConverted(a, b reflect.Value) bool {
	e := value.TypeReflectEntryOf(a.Type())
	x, err := e.ToUnstructured(addressable(a))
	y, err2 := e.ToUnstructured(addressable(b))
	return err == nil && err2 == nil && value.Equals(value.NewValueInterface(x), value.NewValueInterface(y))
}

// addressable makes methods of pointers callable.
func addressable(v reflect.Value) reflect.Value {
	if v.CanAddr() {
		return v
	}
	p := reflect.New(v.Type()).Elem()
	p.Set(v)
	return p
}

// at returns the value as its Go type, without a copy on the heap where that can be had.
func at[T any](v reflect.Value) *T {
	if v.CanAddr() {
		return v.Addr().Interface().(*T)
	}
	t := v.Interface().(T)
	return &t
}

func equalTime(a, b reflect.Value) bool {
	x, y := at[metav1.Time](a), at[metav1.Time](b)
	return x.IsZero() == y.IsZero() && x.Unix() == y.Unix()
}

func equalMicroTime(a, b reflect.Value) bool {
	x, y := at[metav1.MicroTime](a), at[metav1.MicroTime](b)
	return x.IsZero() == y.IsZero() && x.Truncate(time.Microsecond).Equal(y.Truncate(time.Microsecond))
}

func equalQuantity(a, b reflect.Value) bool {
	x, y := *at[resource.Quantity](a), *at[resource.Quantity](b) // copies: String remembers what it made
	return x == y || x.String() == y.String()
}

func equalIntOrString(a, b reflect.Value) bool {
	x, y := at[intstr.IntOrString](a), at[intstr.IntOrString](b)
	if x.Type != y.Type {
		return false
	}
	return x.Type == intstr.Int && x.IntVal == y.IntVal || x.Type == intstr.String && x.StrVal == y.StrVal
}

// fieldAt is FieldByIndex for the common short paths.
func fieldAt(v reflect.Value, index []int) reflect.Value {
	for _, i := range index {
		v = v.Field(i)
	}
	return v
}
