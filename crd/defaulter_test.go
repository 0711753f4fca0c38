package crd

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/runtime"
)

// A defaulter does what the library does, whatever is there.
func TestFillAgreesWithLibrary(t *testing.T) {
	k := kindOf(t, `{type: object, properties: {
		a: {type: string, default: x}, b: {type: string, nullable: true, default: y}, c: {type: object, default: {d: z},
		  properties: {d: {type: string}, e: {type: integer, default: 3}}},
		list: {type: array, items: {type: object, default: {p: 1}, properties: {p: {type: integer, default: 80}}}},
		map: {type: object, additionalProperties: {type: object, default: {q: 2}, properties: {q: {type: integer, default: 9}}}},
		plain: {type: object, properties: {x: {type: string}}}}}`)
	s, err := k.hub.schema()
	if err != nil {
		t.Fatal(err)
	}
	f, random := newFiller(s), rand.New(rand.NewPCG(3, 4))
	for range 500 {
		obj := map[string]any{"spec": map[string]any{"a": "1", "b": nil, "c": map[string]any{},
			"list": []any{map[string]any{}, nil, map[string]any{"p": int64(5)}},
			"map":  map[string]any{"m": map[string]any{}, "n": nil}, "plain": map[string]any{"x": "y"}}}
		damage(random, obj["spec"])
		damage(random, obj["spec"])
		want := runtime.DeepCopyJSON(obj)
		defaulting.Default(want, s)
		if f.fill(obj); !reflect.DeepEqual(obj, want) {
			t.Fatalf("got %v, want %v", obj, want)
		}
	}
	if k := kindOf(t, `{type: object, properties: {a: {type: string}}}`); mustSchema(t, k) != nil {
		t.Error("a schema without defaults has a filler")
	}
}

func mustSchema(t *testing.T, k *Kind) *defaulter {
	t.Helper()
	s, err := k.hub.schema()
	if err != nil {
		t.Fatal(err)
	}
	return newFiller(s)
}
