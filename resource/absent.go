package resource

import (
	"reflect"
	"slices"
	"strings"
	"sync"
)

// A gap says where in a type lists and maps lie. What is stored as protobuf does not tell an empty one from none, so that it is
// read back as null; here it is made so before it is stored.
type gap struct {
	here   bool // the value itself counts
	texts  bool // a map of bytes, which are never null
	fields []gapField
	elem   *gap // of what a list, map or pointer holds
}

type gapField struct {
	index int
	gap   *gap
}

// gaps remembers those of kinds: reflect.Type → *gap; nil where there is nothing to do. Those that JSON shows even when they are
// empty, and all.
var shownGaps, allGaps sync.Map

// gapsOf returns where lists lie in a kind, all of them or those that show when they are empty; nil for nowhere.
func gapsOf(kind reflect.Type, all bool) *gap {
	known := &shownGaps
	if all {
		known = &allGaps
	}
	if g, ok := known.Load(kind); ok {
		return g.(*gap)
	}
	g := findGaps(kind, all, nil)
	known.Store(kind, g)
	return g
}

// findGaps does not look into a type that holds itself a second time: above are those that hold this one.
func findGaps(t reflect.Type, all bool, above []reflect.Type) *gap {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		e := findGaps(t.Elem(), all, above)
		if texts := all && t.Kind() == reflect.Map && isBytes(t.Elem()); texts || e != nil {
			return &gap{elem: e, texts: texts}
		}
	case reflect.Struct:
		if slices.Contains(above, t) {
			return nil
		}
		g, above := &gap{}, append(slices.Clip(above), t)
		for i := range t.NumField() {
			if f := fieldGaps(t.Field(i), all, above); f != nil {
				g.fields = append(g.fields, gapField{i, f})
			}
		}
		if g.fields != nil {
			return g
		}
	}
	return nil
}

func fieldGaps(f reflect.StructField, all bool, above []reflect.Type) *gap {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	if !f.IsExported() || name == "-" || f.Name == "ObjectMeta" && !all {
		return nil
	}
	g := findGaps(f.Type, all, above)
	list := f.Type.Kind() == reflect.Slice && !isBytes(f.Type)
	if !list && f.Type.Kind() != reflect.Map || !all && (name == "" || strings.Contains(options, "omitempty")) {
		return g
	}
	found := gap{here: true}
	if g != nil {
		found.elem, found.texts = g.elem, g.texts
	}
	return &found
}

func isBytes(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
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
	case g.texts:
		for it := v.MapRange(); it.Next(); {
			if it.Value().IsNil() {
				v.SetMapIndex(it.Key(), reflect.MakeSlice(v.Type().Elem(), 0, 0))
			}
		}
	case g.elem == nil:
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			g.elem.fill(v.Index(i))
		}
	case v.Type().Elem().Kind() == reflect.Struct:
		g.elem.fillCopies(v)
	default:
		for it := v.MapRange(); it.Next(); {
			g.elem.fill(it.Value())
		}
	}
}

// fillCopies is fill for the structs in a map, which can't be changed where they are. It writes only what changes: others may read.
func (g *gap) fillCopies(m reflect.Value) {
	for it := m.MapRange(); it.Next(); {
		v := reflect.New(m.Type().Elem()).Elem()
		v.Set(it.Value())
		if g.fill(v); !reflect.DeepEqual(v.Interface(), it.Value().Interface()) {
			m.SetMapIndex(it.Key(), v)
		}
	}
}

// dropEmpty makes the lists and maps of an object nil that JSON shows although they are empty.
func dropEmpty(obj Object) { fillGaps(obj, false) }

// AsRead makes of an object that is to be stored as protobuf what reading it back gives: no list or map is there and empty. What is
// written next is compared with it, and to who owns a list as a whole an empty list in it is not one that is missing.
func AsRead(k Kind, obj Object) {
	if i := k.Info(); !i.Custom && !i.KeepsEmpty {
		fillGaps(obj, true)
	}
}

func fillGaps(obj Object, all bool) {
	v := reflect.ValueOf(obj)
	if g := gapsOf(v.Type(), all); g != nil {
		g.fill(v)
	}
}
