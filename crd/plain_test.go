package crd

import (
	"math/rand/v2"
	"reflect"
	"testing"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// ofAllSorts is a schema with all that plain looks at.
const ofAllSorts = `{type: object, properties: {
	text: {type: string}, none: {type: string, nullable: true}, preset: {type: string, default: a},
	fields: {type: object, properties: {a: {type: string}, deep: {type: object, properties: {b: {type: integer}}}}},
	map: {type: object, additionalProperties: {type: object, properties: {c: {type: string}}}},
	any: {type: object, additionalProperties: true},
	open: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {d: {type: object, properties: {e: {type: string}}}}},
	list: {type: array, items: {type: object, properties: {f: {type: string}}}},
	kept: {type: array, x-kubernetes-preserve-unknown-fields: true, items: {type: object, properties: {g: {type: string}}}},
	whole: {type: object, x-kubernetes-embedded-resource: true, properties: {spec: {type: object, properties: {h: {type: string}}}}}}}`

const allSorts = `{apiVersion: example.com/v1, kind: Thing, metadata: {name: a, generateName: b, namespace: c, uid: d, resourceVersion: "1",
  generation: 2, creationTimestamp: "2026-01-01T00:00:00Z", deletionTimestamp: "2026-01-01T00:00:01Z", deletionGracePeriodSeconds: 0,
  labels: {e: f, g: ""}, annotations: {h: i}, finalizers: [j/k, l/m],
  ownerReferences: [{apiVersion: v1, kind: Pod, name: pod, uid: "", controller: true, blockOwnerDeletion: false}],
  managedFields: [{manager: o, operation: Update, apiVersion: v1, time: "2026-01-01T00:00:00Z", fieldsType: FieldsV1, subresource: status,
    fieldsV1: {"f:spec": {".": {}, "k:{\"n\":1}": {}}}}]},
spec: {text: x, none: z, preset: z, fields: {a: x, deep: {b: 1}}, map: {m: {c: x}}, any: {a: x, b: 1}, open: {p: {q: [1, null]}, d: {e: x}},
  list: [{f: x}, {f: z}]}}`

func treeOf(t *testing.T, text string) map[string]any {
	t.Helper()
	var tree any
	if err := yaml.Unmarshal([]byte(text), &tree); err != nil {
		t.Fatal(err)
	}
	return asStored(tree).(map[string]any)
}

// libraryLeaves says that the library leaves a tree as it is.
func libraryLeaves(tree map[string]any, s *structural.Structural, lenient bool) bool {
	is := runtime.DeepCopyJSON(tree)
	meta, has, unknown, err := objectmeta.GetObjectMetaWithOptions(is,
		objectmeta.ObjectMetaOptions{DropMalformedFields: lenient, ReturnUnknownFieldPaths: true})
	if err != nil {
		return false
	}
	unknown = append(unknown, pruning.PruneWithOptions(is, s, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})...)
	defaulting.PruneNonNullableNullsWithoutDefaults(is, s)
	ferr, paths := objectmeta.CoerceWithOptions(nil, is, s, false,
		objectmeta.CoerceOptions{DropInvalidFields: lenient, ReturnUnknownFieldPaths: true})
	if ferr != nil || len(unknown)+len(paths) > 0 {
		return false
	}
	for _, name := range []string{"apiVersion", "kind"} {
		if v, has := tree[name]; has {
			if is[name] = v; reflect.TypeOf(v).Kind() != reflect.String {
				return false
			}
		}
	}
	if has && objectmeta.SetObjectMeta(is, meta) != nil {
		return false
	}
	return reflect.DeepEqual(is, tree)
}

// What is plain, the library leaves as it is; and what is as it should be is plain.
func TestPlainAgreesWithLibrary(t *testing.T) {
	k := kindOf(t, ofAllSorts)
	s, err := k.hub.schema()
	if err != nil {
		t.Fatal(err)
	}
	base := treeOf(t, allSorts)
	if !plain(base, s) || !libraryLeaves(base, s, false) || !libraryLeaves(base, s, true) {
		t.Fatal("the object as it should be is not plain")
	}
	random, agreed := rand.New(rand.NewPCG(5, 6)), 0
	for range 2000 {
		tree := runtime.DeepCopyJSON(base)
		for range 1 + random.IntN(3) {
			damage(random, tree)
		}
		if !plain(tree, s) {
			continue
		}
		agreed++
		if !libraryLeaves(tree, s, false) || !libraryLeaves(tree, s, true) {
			t.Fatalf("the library does not leave %v", tree)
		}
	}
	if agreed < 100 {
		t.Errorf("only %d were plain", agreed)
	}
}

// Each thing that the library does something about is not plain.
func TestNotPlain(t *testing.T) {
	k := kindOf(t, ofAllSorts)
	s, err := k.hub.schema()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, tree string }{
		{"no text for a kind", `{kind: 1}`},
		{"no map for metadata", `{metadata: []}`},
		{"unknown metadata", `{metadata: {nome: a}}`},
		{"an empty name", `{metadata: {name: ""}}`},
		{"no generation", `{metadata: {generation: 0}}`},
		{"no time", `{metadata: {creationTimestamp: null}}`},
		{"the time before all", `{metadata: {creationTimestamp: "0001-01-01T00:00:00Z"}}`},
		{"a time elsewhere", `{metadata: {creationTimestamp: "2026-01-01T00:00:00+01:00"}}`},
		{"a part of a second", `{metadata: {creationTimestamp: "2026-01-01T00:00:00.5Z"}}`},
		{"no labels", `{metadata: {labels: {}}}`},
		{"a label that is a number", `{metadata: {labels: {a: 1}}}`},
		{"no finalizers", `{metadata: {finalizers: []}}`},
		{"an owner without a uid", `{metadata: {ownerReferences: [{apiVersion: v1, kind: Pod, name: n}]}}`},
		{"an owner with more", `{metadata: {ownerReferences: [{apiVersion: v1, kind: Pod, name: pod, uid: u, namespace: o}]}}`},
		{"fields that are a number", `{metadata: {managedFields: [{fieldsV1: 1}]}}`},
		{"fields that are nothing", `{metadata: {managedFields: [{fieldsV1: null}]}}`},
		{"a manager without a name", `{metadata: {managedFields: [{manager: ""}]}}`},
		{"an unknown field", `{spec: {test: x}}`},
		{"an unknown field at the top", `{spek: {}}`},
		{"an unknown field below", `{spec: {fields: {deep: {c: 1}}}}`},
		{"an unknown field in a map", `{spec: {map: {m: {d: x}}}}`},
		{"an unknown field in a map of anything", `{spec: {any: {a: {o: x}}}}`},
		{"an unknown field in a list", `{spec: {list: [{g: x}]}}`},
		{"an unknown field below one that is open", `{spec: {open: {d: {f: x}}}}`},
		{"a list that is open", `{spec: {kept: [{h: x}]}}`},
		{"nothing", `{spec: {text: null}}`},
		{"nothing that may be", `{spec: {none: null}}`},
		{"an object in it", `{spec: {whole: {apiVersion: v1, kind: Pod, metadata: {name: ""}}}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if plain(treeOf(t, c.tree), s) {
				t.Error("it is plain")
			}
		})
	}
	if plain(map[string]any{}, nil) {
		t.Error("what has no schema is plain")
	}
}

// A stored object without a generation gets one.
func TestPlainWithoutGeneration(t *testing.T) {
	k := kindOf(t, ofAllSorts)
	for _, lenient := range []bool{true, false} {
		tree := treeOf(t, `{metadata: {name: a}, spec: {text: x}}`)
		if _, err := k.hub.coerce(tree, false, lenient); err != nil {
			t.Fatal(err)
		}
		if got := tree["metadata"].(map[string]any)["generation"]; (got == int64(1)) != lenient {
			t.Errorf("lenient %v: generation %v", lenient, got)
		}
	}
}
