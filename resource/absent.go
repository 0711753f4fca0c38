package resource

import (
	"reflect"
	"slices"
	"strings"
	"sync"
)

// A gap says where in a type lists and maps lie that JSON shows even when they are empty. What is stored as protobuf does not
// tell an empty list from none, so that it is read back as null; here it is made so before it is stored.
type gap struct {
	here   bool // the value itself is shown
	fields []gapField
	elem   *gap // of what a list, map or pointer holds
}

type gapField struct {
	index int
	gap   *gap
}

var gaps sync.Map // reflect.Type of a kind → *gap; nil where there is nothing to do

// gapsOf returns where empty lists show in a kind, nil for nowhere.
func gapsOf(kind reflect.Type) *gap {
	if known, ok := gaps.Load(kind); ok {
		return known.(*gap)
	}
	g := findGaps(kind, nil)
	gaps.Store(kind, g)
	return g
}

// findGaps does not look into a type that holds itself a second time: above are those that hold this one.
func findGaps(t reflect.Type, above []reflect.Type) *gap {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		if e := findGaps(t.Elem(), above); e != nil {
			return &gap{elem: e}
		}
	case reflect.Struct:
		if slices.Contains(above, t) {
			return nil
		}
		g, above := &gap{}, append(slices.Clip(above), t)
		for i := range t.NumField() {
			if f := fieldGaps(t.Field(i), above); f != nil {
				g.fields = append(g.fields, gapField{i, f})
			}
		}
		if g.fields != nil {
			return g
		}
	}
	return nil
}

func fieldGaps(f reflect.StructField, above []reflect.Type) *gap {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	if !f.IsExported() || name == "-" || f.Name == "ObjectMeta" {
		return nil
	}
	g := findGaps(f.Type, above)
	list := f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() != reflect.Uint8
	if !list && f.Type.Kind() != reflect.Map || name == "" || strings.Contains(options, "omitempty") {
		return g
	}
	shown := gap{here: true}
	if g != nil {
		shown.elem = g.elem
	}
	return &shown
}

// fill makes empty lists and maps nil, below v too.
func (g *gap) fill(v reflect.Value) {
	switch {
	case g == nil:
	case v.Kind() == reflect.Struct:
		for _, f := range g.fields {
			f.gap.fill(v.Field(f.index))
		}
	case v.IsNil():
	case v.Kind() == reflect.Pointer:
		g.elem.fill(v.Elem())
	case v.Len() == 0:
		if g.here {
			v.SetZero()
		}
	case g.elem == nil:
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			g.elem.fill(v.Index(i))
		}
	case v.Type().Elem().Kind() != reflect.Struct: // values in a map can't be changed where they are
		for it := v.MapRange(); it.Next(); {
			g.elem.fill(it.Value())
		}
	}
}

// dropEmpty makes the lists and maps of an object nil that JSON shows although they are empty.
func dropEmpty(obj Object) {
	v := reflect.ValueOf(obj)
	if g := gapsOf(v.Type()); g != nil {
		g.fill(v)
	}
}
