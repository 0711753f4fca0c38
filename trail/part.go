package trail

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kloop-dev/kloop/resource"
)

// mostFields bounds how many fields a brief names, and maxValue the length of a value in it.
const (
	mostFields = 3
	maxValue   = 40
)

// part names what of an object changed: the fields of its spec, or of all beside metadata and status where nobody counts its changes.
func part(old, now resource.Object) string {
	switch {
	case old.GetGeneration() != now.GetGeneration():
		if list := specs(old, now); len(list) > 0 {
			return some(list)
		}
		return "spec"
	case len(old.GetFinalizers()) > len(now.GetFinalizers()):
		return "let go by " + strings.Join(missing(old.GetFinalizers(), now.GetFinalizers()), ", ")
	case !equality.Semantic.DeepEqual(old.GetLabels(), now.GetLabels()):
		return "labels"
	case !equality.Semantic.DeepEqual(old.GetAnnotations(), now.GetAnnotations()):
		return "annotations"
	case !equality.Semantic.DeepEqual(old.GetOwnerReferences(), now.GetOwnerReferences()):
		return "owners"
	}
	if list := beside(old, now); len(list) > 0 {
		return some(list)
	}
	return "status"
}

func some(list []string) string {
	if n := len(list) - mostFields; n > 0 {
		list = append(list[:mostFields:mostFields], fmt.Sprintf("and %d more", n))
	}
	return strings.Join(list, ", ")
}

// specs are the fields of the spec that differ, those of numbers and words with their values. Those of kinds that users defined are named
// alone: nobody knows what they hold.
func specs(old, now resource.Object) []string {
	a, custom := resource.Opened(old).(interface{ UnstructuredContent() map[string]any })
	b, both := resource.Opened(now).(interface{ UnstructuredContent() map[string]any })
	if custom && both {
		return differ("spec", reflect.ValueOf(a.UnstructuredContent()["spec"]), reflect.ValueOf(b.UnstructuredContent()["spec"]))
	}
	x, y := reflect.Indirect(reflect.ValueOf(old)), reflect.Indirect(reflect.ValueOf(now))
	if x.Kind() != reflect.Struct || x.Type() != y.Type() || !x.FieldByName("Spec").IsValid() {
		return nil
	}
	return differ("spec", x.FieldByName("Spec"), y.FieldByName("Spec"))
}

// beside are the fields that differ and are neither metadata nor status: data, rules, subjects, with the names of keys and without values.
func beside(old, now resource.Object) (list []string) {
	x, y := reflect.Indirect(reflect.ValueOf(old)), reflect.Indirect(reflect.ValueOf(now))
	if x.Kind() != reflect.Struct || x.Type() != y.Type() {
		return nil
	}
	for i := range x.NumField() {
		name := nameOf(x, i)
		if name == "" || name == "metadata" || name == "status" || equality.Semantic.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			continue
		}
		if x.Field(i).Kind() == reflect.Map || name == "spec" {
			list = append(list, differ(name, x.Field(i), y.Field(i))...)
			continue
		}
		list = append(list, name)
	}
	return list
}

// nameOf is the name of a struct's field in JSON; "" of one that is inlined.
func nameOf(x reflect.Value, i int) string {
	name, _, _ := strings.Cut(x.Type().Field(i).Tag.Get("json"), ",")
	return name
}

// differ names the fields of two structs, or the keys of two maps, that differ.
func differ(path string, x, y reflect.Value) (list []string) {
	switch {
	case !x.IsValid() || !y.IsValid() || x.Type() != y.Type():
		return []string{path}
	case x.Kind() == reflect.Map:
		keys := map[string]bool{}
		for _, k := range append(x.MapKeys(), y.MapKeys()...) {
			a, b := x.MapIndex(k), y.MapIndex(k)
			if !a.IsValid() || !b.IsValid() || !equality.Semantic.DeepEqual(a.Interface(), b.Interface()) {
				keys[path+"."+k.String()] = true
			}
		}
		for key := range keys {
			list = append(list, key)
		}
		slices.Sort(list)
	case x.Kind() == reflect.Struct:
		for i := range x.NumField() {
			if !equality.Semantic.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
				list = append(list, path+"."+nameOf(x, i)+turned(x.Field(i), y.Field(i)))
			}
		}
	default:
		return []string{path}
	}
	return list
}

// turned words a change of a number, a word or a yes and no; "" of anything else.
func turned(a, b reflect.Value) string {
	word := func(v reflect.Value) (string, bool) {
		if v.Kind() == reflect.Pointer && v.IsNil() {
			return "(none)", true
		}
		switch v = reflect.Indirect(v); v.Kind() {
		case reflect.Bool, reflect.Int, reflect.Int32, reflect.Int64:
			return fmt.Sprint(v.Interface()), true
		case reflect.String:
			return v.String(), v.Len() <= maxValue
		}
		return "", false
	}
	x, ok := word(a)
	y, both := word(b)
	if !ok || !both || x == y {
		return ""
	}
	if x == "" {
		x = "(none)"
	}
	if y == "" {
		y = "(none)"
	}
	return ": " + x + " → " + y
}
