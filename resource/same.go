package resource

import (
	"bytes"
	"maps"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Same compares as the API does: nil and empty are equal, quantities and times are compared by value. It says what
// equality.Semantic.DeepEqual says, which finds out anew at each value what to do with its type and takes several times as long.
func Same(a, b any) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	return x.Type() == y.Type() && samenessOf(x.Type())(x, y)
}

// A sameness compares two values of a type.
type sameness func(a, b reflect.Value) bool

// samenesses remembers the comparisons of types. Recursive types refer to themselves through it.
var samenesses sync.Map

func samenessOf(t reflect.Type) sameness {
	if f, ok := samenesses.Load(t); ok {
		return f.(sameness)
	}
	made := sync.OnceValue(func() sameness { return makeSameness(t) })
	samenesses.Store(t, sameness(func(a, b reflect.Value) bool { return made()(a, b) })) // for recursion
	f := made()
	samenesses.Store(t, f)
	return f
}

// byValue are the types that have their own idea of what is the same. They get pointers to what they compare.
var byValue = map[reflect.Type]func(a, b any) bool{
	reflect.TypeFor[apiresource.Quantity](): func(a, b any) bool { return a.(*apiresource.Quantity).Cmp(*b.(*apiresource.Quantity)) == 0 },
	reflect.TypeFor[metav1.Time]():          func(a, b any) bool { return a.(*metav1.Time).UTC() == b.(*metav1.Time).UTC() },
	reflect.TypeFor[metav1.MicroTime]():     func(a, b any) bool { return a.(*metav1.MicroTime).UTC() == b.(*metav1.MicroTime).UTC() },
	reflect.TypeFor[metav1.FieldsV1]():      func(a, b any) bool { return a.(*metav1.FieldsV1).Equal(*b.(*metav1.FieldsV1)) },
	reflect.TypeFor[map[string]string]():    func(a, b any) bool { return maps.Equal(*a.(*map[string]string), *b.(*map[string]string)) },
	reflect.TypeFor[[]byte]():               func(a, b any) bool { return bytes.Equal(*a.(*[]byte), *b.(*[]byte)) },
}

// at is a pointer to a value, or to a copy of one that has no address.
func at(v reflect.Value) any {
	if !v.CanAddr() {
		held := reflect.New(v.Type()).Elem()
		held.Set(v)
		v = held
	}
	return v.Addr().Interface()
}

func makeSameness(t reflect.Type) sameness {
	if same, ok := byValue[t]; ok {
		return func(a, b reflect.Value) bool { return same(at(a), at(b)) }
	}
	switch t.Kind() {
	case reflect.Pointer:
		return samePointers(samenessOf(t.Elem()))
	case reflect.Slice:
		return sameSlices(samenessOf(t.Elem()))
	case reflect.Map:
		return sameMaps(t, samenessOf(t.Elem()))
	case reflect.Struct:
		return sameStructs(t)
	case reflect.Interface:
		return func(a, b reflect.Value) bool {
			if a.IsNil() || b.IsNil() {
				return a.IsNil() == b.IsNil()
			}
			a, b = a.Elem(), b.Elem()
			return a.Type() == b.Type() && samenessOf(a.Type())(a, b)
		}
	case reflect.String:
		return func(a, b reflect.Value) bool { return a.String() == b.String() }
	case reflect.Bool:
		return func(a, b reflect.Value) bool { return a.Bool() == b.Bool() }
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return func(a, b reflect.Value) bool { return a.Int() == b.Int() }
	}
	return sameAnyhow
}

// sameAnyhow compares what is rare.
func sameAnyhow(a, b reflect.Value) bool {
	return equality.Semantic.DeepEqual(a.Interface(), b.Interface())
}

func samePointers(elem sameness) sameness {
	return func(a, b reflect.Value) bool {
		if a.IsNil() || b.IsNil() || a.Pointer() == b.Pointer() {
			return a.IsNil() == b.IsNil()
		}
		return elem(a.Elem(), b.Elem())
	}
}

func sameSlices(elem sameness) sameness {
	return func(a, b reflect.Value) bool {
		n := a.Len()
		if n != b.Len() {
			return false
		}
		if n == 0 || a.Pointer() == b.Pointer() {
			return true
		}
		for i := range n {
			if !elem(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	}
}

// An entry has room for a key of a map, and for its value in two.
type entry struct{ key, a, b reflect.Value }

func sameMaps(t reflect.Type, elem sameness) sameness {
	entries := sync.Pool{New: func() any {
		return &entry{reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem(), reflect.New(t.Elem()).Elem()}
	}}
	return func(a, b reflect.Value) bool {
		if a.Len() != b.Len() {
			return false
		}
		if a.Len() == 0 || a.Pointer() == b.Pointer() {
			return true
		}
		e := entries.Get().(*entry)
		same := true
		for it := a.MapRange(); same && it.Next(); {
			e.key.SetIterKey(it)
			other := b.MapIndex(e.key)
			if same = other.IsValid(); same {
				e.a.SetIterValue(it)
				e.b.Set(other)
				same = elem(e.a, e.b)
			}
		}
		e.key.SetZero()
		e.a.SetZero()
		e.b.SetZero()
		entries.Put(e)
		return same
	}
}

func sameStructs(t reflect.Type) sameness {
	fields := make([]sameness, t.NumField())
	for i := range fields {
		if !t.Field(i).IsExported() {
			return sameAnyhow
		}
		fields[i] = samenessOf(t.Field(i).Type)
	}
	return func(a, b reflect.Value) bool {
		for i, same := range fields {
			if !same(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	}
}
