package crd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiserver/pkg/warning"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/resource"
)

// kindOf is a kind whose spec has the schema.
func kindOf(tb testing.TB, spec string) *Kind {
	tb.Helper()
	def := &apiextensionsv1.CustomResourceDefinition{}
	text := `{metadata: {name: things.example.com}, spec: {group: example.com, scope: Cluster,
  names: {plural: things, singular: thing, kind: Thing, listKind: ThingList},
versions: [{name: v1, served: true, storage: true, subresources: {status: {}},
  schema: {openAPIV3Schema: {type: object, properties: {spec: ` + spec + `}}}}]}}`
	if err := yaml.UnmarshalStrict([]byte(text), def); err != nil {
		tb.Fatal(err)
	}
	k, err := NewKind(def)
	if err != nil {
		tb.Fatal(err)
	}
	return k.(*Kind)
}

// library validates without the short cut.
func library(tb testing.TB, k *Kind, obj, old map[string]any) string {
	tb.Helper()
	r, err := k.at.rules()
	if err != nil {
		tb.Fatal(err)
	}
	c := &checking{at: k.at, obj: obj, old: old, ctx: warning.WithWarningRecorder(context.Background(), recorder(func(string) {}))}
	if c.libraryValidator, err = r.stock(); err != nil {
		tb.Fatal(err)
	}
	c.whole()
	c.lists()
	c.evaluate()
	if len(c.errs) == 0 {
		return ""
	}
	return c.errs.ToAggregate().Error()
}

func sound(tb testing.TB, k *Kind, obj, old map[string]any) bool {
	tb.Helper()
	r, err := k.at.rules()
	if err != nil {
		tb.Fatal(err)
	}
	return (&checking{at: k.at, obj: obj, old: old, ctx: context.Background()}).sound(r, "")
}

func TestSound(t *testing.T) {
	for _, c := range []struct {
		schema, value string
		sound, valid  bool
	}{
		{"{type: string}", "a", true, true},
		{"{type: string}", "1", false, false},
		{"{type: string}", "null", false, false},
		{"{type: string, nullable: true}", "null", true, true},
		{"{type: string, maxLength: 2}", "äö", true, true},
		{"{type: string, minLength: 1}", "''", false, false},
		{"{type: string, pattern: '^a'}", "ab", true, true},
		{"{type: string, pattern: '^a'}", "b", false, false},
		{"{type: string, format: date-time}", "'2026-01-01T00:00:00Z'", true, true},
		{"{type: string, format: date-time}", "'today'", false, false},
		{"{type: string, format: whatever}", "a", true, true},
		{"{type: string, enum: [a, b]}", "b", true, true},
		{"{type: string, enum: [a, b]}", "c", false, false},
		{"{type: integer, enum: [1, 2]}", "2", true, true},
		{"{type: integer, minimum: 1, maximum: 3}", "3", true, true},
		{"{type: integer, minimum: 1, exclusiveMinimum: true}", "1", false, false},
		{"{type: integer, format: int32}", "3000000000", false, false},
		{"{type: integer, format: int64}", "3000000000", true, true},
		{"{type: integer}", "1.5", false, false},
		{"{type: number}", "1.5", true, true},
		{"{type: number}", "1", true, true},
		{"{type: number, multipleOf: 2}", "4", false, true}, // the library's
		{"{type: boolean}", "true", true, true},
		{"{x-kubernetes-int-or-string: true}", "5", true, true},
		{"{x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}], pattern: '^[0-9]+%?$'}", "5%", true, true},
		{"{x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}], pattern: '^[0-9]+%?$'}", "x", false, false},
		{"{type: object, required: [a], properties: {a: {type: string}}}", "{a: b}", true, true},
		{"{type: object, required: [a], properties: {a: {type: string}}}", "{}", false, false},
		{"{type: object, additionalProperties: {type: string}, maxProperties: 1}", "{a: b}", true, true},
		{"{type: object, additionalProperties: {type: string}}", "{a: 1}", false, false},
		{"{type: object, additionalProperties: {type: string}, maxProperties: 1}", "{a: b, c: d}", false, false},
		{"{type: object, x-kubernetes-preserve-unknown-fields: true}", "{a: [1, {b: c}]}", true, true},
		{"{type: array, items: {type: string}, maxItems: 2}", "[a, b]", true, true},
		{"{type: array, items: {type: string}, maxItems: 2}", "[a, b, c]", false, false},
		{"{type: array, items: {type: string}, x-kubernetes-list-type: set}", "[a, b]", true, true},
		{"{type: array, items: {type: string}, x-kubernetes-list-type: set}", "[a, a]", false, false},
		{
			"{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, required: " +
				"[k], properties: {k: {type: string}}}}", "[{k: a}, {k: b}]", true, true},
		{
			"{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, required: " +
				"[k], properties: {k: {type: string}}}}", "[{k: a}, {k: a}]", false, false},
		{"{type: object, properties: {a: {type: integer}}, x-kubernetes-validations: [{rule: self.a > 1}]}", "{a: 2}", true, true},
		{"{type: object, properties: {a: {type: integer}}, x-kubernetes-validations: [{rule: self.a > 1}]}", "{a: 1}", false, false},
		{"{type: object, properties: {a: {type: integer}}, x-kubernetes-validations: [{rule: self.a > 1}]}", "{}", false, false},
		{"{type: array, items: {type: integer, x-kubernetes-validations: [{rule: self > 1}]}}", "[2, 1]", false, false},
		{"{type: object, additionalProperties: {type: integer, x-kubernetes-validations: [{rule: self > 1}]}}", "{a: 2}", true, true},
		{"{type: integer, x-kubernetes-validations: [{rule: self > oldSelf}]}", "1", true, true},
		{"{type: integer, x-kubernetes-validations: [{rule: '!oldSelf.hasValue()', optionalOldSelf: true}]}", "1", true, true},
		{"{type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}",
			"{apiVersion: v1, kind: A, metadata: {name: a}}", false, true},
	} {
		t.Run(c.schema, func(t *testing.T) {
			k := kindOf(t, c.schema)
			var value any
			if err := yaml.Unmarshal([]byte(c.value), &value); err != nil {
				t.Fatal(err)
			}
			obj := map[string]any{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "a"}, "spec": asStored(value)}
			if says := library(t, k, obj, nil); (says == "") != c.valid || sound(t, k, obj, nil) != c.sound {
				t.Errorf("%s %s: sound %v, library %q", c.schema, c.value, sound(t, k, obj, nil), says)
			}
		})
	}
}

// asStored makes whole numbers integers, as decoding does.
func asStored(v any) any {
	switch x := v.(type) {
	case float64:
		if x == float64(int64(x)) {
			return int64(x)
		}
	case map[string]any:
		for key, of := range x {
			x[key] = asStored(of)
		}
	case []any:
		for i, of := range x {
			x[i] = asStored(of)
		}
	}
	return v
}

// Whatever is sound, the library has nothing to say against; and what is as it should be is sound.
func TestSoundAgreesWithLibrary(t *testing.T) {
	k := databaseKind(t)
	base := newDatabase(t, k)
	if !sound(t, k, base.Object, nil) || !sound(t, k, base.Object, base.Object) {
		t.Fatal("the object as it should be needs the library")
	}
	random := rand.New(rand.NewPCG(1, 2))
	agreed := 0
	for range 400 {
		obj := resource.Clone(base).Object
		for range 1 + random.IntN(2) {
			damage(random, obj["spec"])
		}
		var old map[string]any
		if random.IntN(3) == 0 {
			old = base.Object
		}
		says := library(t, k, obj, old)
		if sound(t, k, obj, old) {
			if agreed++; says != "" {
				t.Errorf("%v is sound, but: %s", obj["spec"], says)
			}
		}
	}
	if agreed == 0 {
		t.Error("nothing was sound")
	}
}

// damage changes something somewhere in a value.
func damage(random *rand.Rand, v any) {
	other := []any{nil, "", "a", "b", "-x", "10Gi", int64(0), int64(22), int64(500), 1.5, true, map[string]any{}, []any{}}
	switch x := v.(type) {
	case map[string]any:
		at, n := random.IntN(len(x)+1), 0
		for key, of := range x {
			if n++; n <= at {
				continue
			}
			if random.IntN(2) == 0 {
				damage(random, of)
			}
			switch random.IntN(4) {
			case 0:
				delete(x, key)
			case 1:
				x[key] = other[random.IntN(len(other))]
			}
			return
		}
		x[fmt.Sprint("new", at)] = other[random.IntN(len(other))]
	case []any:
		if len(x) == 0 {
			return
		}
		damage(random, x[random.IntN(len(x))])
		if random.IntN(3) == 0 {
			x[random.IntN(len(x))] = x[random.IntN(len(x))]
		}
	}
}
