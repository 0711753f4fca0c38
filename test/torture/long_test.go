package torture

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// How many elements lists have that are judged, and how deep they lie at most.
const (
	longList   = 16000
	deepestHas = 9
)

// A site is a struct somewhere in the objects of a kind that has lists or maps.
type site struct {
	kind resource.Kind
	name string
	path []int // of fields; through pointers and into the first element of lists
}

// TestLongLists: rules of kinds cost what the length of an object's lists explains. Where all lists of a struct are long, of elements
// that differ, four times as many elements must not cost sixteen times as much. It judges time, so only in long runs (-costs).
func TestLongLists(t *testing.T) {
	if *costs <= fewCosts {
		t.Skip("long runs judge time: -costs 100000")
	}
	seen := map[string]bool{}
	for _, k := range kinds.All() {
		obj := k.New(k.Info().GVK)
		for _, s := range sites(k, reflect.TypeOf(obj).Elem(), k.Info().GVK.Kind, nil, seen) {
			t.Run(s.name, func(t *testing.T) {
				part, _ := s.judge(t, longList/4)
				whole, errs := s.judge(t, longList)
				if whole > maxCPU && whole > 8*part {
					t.Errorf("%d elements: %v with %d errors, a quarter of them: %v", longList, whole, errs, part)
				}
			})
		}
	}
}

// judge is what it costs to default an object with n elements in each list of the site, to check it and to warn of it.
func (s site) judge(t *testing.T, n int) (took time.Duration, errs int) {
	t.Helper()
	set := kinds.NewSet()
	obj := s.kind.New(s.kind.Info().GVK)
	obj.SetName("name")
	v := reflect.ValueOf(obj).Elem()
	for _, i := range s.path {
		v = inside(v.Field(i))
	}
	for i := range v.NumField() {
		if f := v.Field(i); f.CanSet() && (f.Kind() == reflect.Slice || f.Kind() == reflect.Map) {
			lengthen(f, n, rune('a'+i%26))
		}
	}
	before, _ := usage(t)
	s.kind.SetDefaults(set.Features(), obj)
	errs = len(s.kind.Check(set.Features(), nil, "", obj, nil))
	s.kind.Warnings(set.Features(), obj, nil)
	after, _ := usage(t)
	return after - before, errs
}

// inside allocates what a pointer points to, or the first element of a list.
func inside(v reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return inside(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		return inside(v.Index(0))
	}
	return v
}

// lengthen gives a list or a map n elements that differ.
func lengthen(f reflect.Value, n int, prefix rune) {
	if f.Kind() == reflect.Map {
		f.Set(reflect.MakeMap(f.Type()))
		for i := range n {
			key := reflect.New(f.Type().Key()).Elem()
			differ(key, i, prefix, 0)
			f.SetMapIndex(key, reflect.Zero(f.Type().Elem()))
		}
		return
	}
	f.Set(reflect.MakeSlice(f.Type(), n, n))
	for i := range n {
		differ(f.Index(i), i, prefix, 0)
	}
}

// differ sets the texts and numbers of an element, and those of what it points to.
func differ(v reflect.Value, i int, prefix rune, depth int) {
	if !v.CanSet() || depth > 3 {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("%c%07d", prefix, i))
	case reflect.Int32, reflect.Int64, reflect.Int:
		v.SetInt(int64(i + 1))
	case reflect.Pointer:
		if v.Type().Elem().Kind() == reflect.Struct || v.Type().Elem().Kind() == reflect.String {
			v.Set(reflect.New(v.Type().Elem()))
			differ(v.Elem(), i, prefix, depth+1)
		}
	case reflect.Struct:
		for k := range v.NumField() {
			differ(v.Field(k), i, prefix, depth+1)
		}
	}
}

// sites are the structs below a type that have lists or maps, each type once for each type that holds it.
func sites(k resource.Kind, t reflect.Type, name string, path []int, seen map[string]bool) (list []site) {
	if len(path) > deepestHas || t == reflect.TypeFor[metav1.ObjectMeta]() {
		return nil
	}
	has := false
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		has = has || f.Type.Kind() == reflect.Slice || f.Type.Kind() == reflect.Map
		of := f.Type
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		if key := t.String() + "." + f.Name; of.Kind() == reflect.Struct && !seen[key] {
			seen[key] = true
			list = append(list, sites(k, of, name+"."+f.Name, append(path[:len(path):len(path)], i), seen)...)
		}
	}
	if has {
		list = append(list, site{k, name, path})
	}
	return list
}
