package apply

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8stypes "k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// PatchFields applies a patch to those fields of an object of a built-in kind that it names: a status is patched without the spec being
// encoded and decoded. What it returns is for the caller alone; old is not changed. It returns nil when in doubt, for a patch that
// there is something to say about, and for kinds with raw JSON, which is written anew wherever it stands: the caller then patches the
// whole document.
func PatchFields(pt k8stypes.PatchType, patch []byte, old resource.Object) resource.Object {
	from := reflect.ValueOf(old)
	if from.Kind() != reflect.Pointer || from.Elem().Kind() != reflect.Struct || holdsRaw(from.Elem().Type()) {
		return nil
	}
	from = from.Elem()
	tree := patchTree(pt, patch)
	fields, ok := namedFields(from.Type(), tree, nil, nil)
	if !ok {
		return nil
	}
	part, rest := reflect.New(from.Type()), reflect.New(from.Type())
	rest.Elem().Set(from)
	for _, at := range fields {
		part.Elem().FieldByIndex(at).Set(from.FieldByIndex(at))
		rest.Elem().FieldByIndex(at).SetZero()
	}
	if !patchPart(pt, patch, tree, part) {
		return nil
	}
	out := resource.Clone(rest.Interface().(resource.Object))
	for _, at := range fields {
		reflect.ValueOf(out).Elem().FieldByIndex(at).Set(part.Elem().FieldByIndex(at))
	}
	return out
}

// patchPart patches the object in a pointer, which holds the fields that the patch names. It returns false if there is an error or a
// warning.
func patchPart(pt k8stypes.PatchType, patch []byte, tree map[string]any, part reflect.Value) bool {
	obj := part.Interface().(resource.Object)
	doc, err := codec.MarshalJSON(obj)
	if err != nil {
		return false
	}
	part.Elem().SetZero() // the old values are not the pointer's to write to
	switch pt {
	case k8stypes.JSONPatchType:
		doc, err = JSONPatch(doc, patch)
	case k8stypes.MergePatchType:
		doc, err = MergePatch(doc, patch, true)
	default:
		doc, err = strategicTree(doc, tree, obj)
	}
	if err != nil || codec.CheckElements(doc, obj) != nil {
		return false
	}
	strict, err := codec.UnmarshalJSON(doc, obj)
	return err == nil && len(strict) == 0
}

// patchTree is a patch as a tree of names, with anything but a map where no more names follow. It is nil for a patch that can't be
// read, or has a name twice.
func patchTree(pt k8stypes.PatchType, patch []byte) (tree map[string]any) {
	if pt != k8stypes.JSONPatchType {
		tree, twice, err := codec.UnmarshalTree(patch)
		if err != nil || len(twice) > 0 {
			return nil
		}
		return tree
	}
	var ops []jsonPatchOp
	if strict, err := kjson.UnmarshalStrict(patch, &ops); err != nil || len(strict) > 0 {
		return nil
	}
	tree = map[string]any{}
	for _, op := range ops {
		addPath(tree, op.Path)
		if op.Op == "move" || op.Op == "copy" {
			addPath(tree, op.From)
		}
	}
	return tree
}

// addPath adds the path of an operation to a tree of names. That of the whole document, "", is a name that no field has.
func addPath(tree map[string]any, path string) {
	names := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, name := range names {
		below, is := tree[name].(map[string]any)
		if _, there := tree[name]; there && !is {
			return // all of it is named
		}
		if i == len(names)-1 {
			tree[name] = true
			return
		}
		if below == nil {
			below = map[string]any{}
			tree[name] = below
		}
		tree = below
	}
}

// namedFields appends the fields of a struct that a tree of names leads to: of a struct inside it, only what is named there, of all
// else the whole. ok is false for an empty tree, and for names that are no fields or say something of those that are not named.
func namedFields(t reflect.Type, tree map[string]any, at []int, list [][]int) (_ [][]int, ok bool) {
	known := patchable(t)
	for name, below := range tree {
		for _, directive := range [...]string{"$setElementOrder/", "$deleteFromPrimitiveList/"} {
			name = strings.TrimPrefix(name, directive)
		}
		f, ok := known[name]
		if !ok {
			return nil, false
		}
		index := append(append(make([]int, 0, 4), at...), f.index...)
		if inner, is := below.(map[string]any); is && f.inner != nil && len(inner) > 0 {
			if list, ok = namedFields(f.inner, inner, index, list); !ok {
				return nil, false
			}
			continue
		}
		list = append(list, index)
	}
	return list, tree != nil
}

// knownRaw caches holdsRaw.
var knownRaw sync.Map

// holdsRaw says that a type has JSON in it that is kept byte by byte.
func holdsRaw(t reflect.Type) bool {
	known, ok := knownRaw.Load(t)
	if !ok {
		known = findsRaw(t, map[reflect.Type]bool{})
		knownRaw.Store(t, known)
	}
	return known.(bool)
}

var rawJSON, rawExtension = reflect.TypeFor[apiextensionsv1.JSON](), reflect.TypeFor[runtime.RawExtension]()

// findsRaw is holdsRaw, without types that were looked at before: types hold themselves, and each other many times.
func findsRaw(t reflect.Type, seen map[reflect.Type]bool) bool {
	if t == rawJSON || t == rawExtension {
		return true
	}
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return findsRaw(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if findsRaw(t.Field(i).Type, seen) {
				return true
			}
		}
	}
	return false
}

// A patchableField is a field of a struct that a patch may name.
type patchableField struct {
	index []int
	inner reflect.Type // of a struct that is merged field by field; nil: of anything else
}

// knownPatchable caches patchable: the types of the API are few.
var knownPatchable sync.Map

// patchable are the fields of a struct by the names that patches have for them. What says which kind an object is is not among them.
func patchable(t reflect.Type) map[string]patchableField {
	if known, ok := knownPatchable.Load(t); ok {
		return known.(map[string]patchableField)
	}
	all := map[string]patchableField{}
	for _, f := range jsonFields(t, nil) {
		p := patchableField{index: f.index}
		strategy := t.FieldByIndex(f.index).Tag.Get("patchStrategy")
		if f.t.Kind() == reflect.Struct && strategy == "" && !reflect.PointerTo(f.t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
			p.inner = f.t
		}
		all[f.name] = p
	}
	for _, name := range ours {
		delete(all, name)
	}
	knownPatchable.Store(t, all)
	return all
}
