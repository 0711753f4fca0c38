package apiextensions

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/resource/codec"
)

// everything is a schema with all fields that there are.
const everything = `{id: i, $schema: s, $ref: r, description: "<d> \u00e9 \"\\ \u2028 & \n", type: object,
  format: f, title: t, default: {b: "<", a: [1, 2.50, null]}, maximum: 1.5e30,
exclusiveMaximum: true, minimum: 0, exclusiveMinimum: true, maxLength: 0, minLength: -3, pattern: "^<$", maxItems: 1,
  minItems: 9007199254740993, uniqueItems: true,
multipleOf: 0.1, enum: [a, 1, {x: y}, ""], maxProperties: 5, minProperties: 0, required: [b, a, ""], items: {type: array, items: {}},
  allOf: [{}, {type: string}],
oneOf: [{required: [a]}], anyOf: [{not: {}}], not: {type: string}, properties: {b: {properties: {"<": {}}}, a: {properties: {}},
  "a.b": {nullable: true}, "": {}},
additionalProperties: {type: string, additionalProperties: false}, patternProperties: {x: {items: {items: {default: "a<b"}}}},
  dependencies: {q: {type: string}, r: {}},
additionalItems: true, definitions: {y: {}, z: {properties: {y: {default: null}}}}, externalDocs: {description: d, url: "u&v"},
  example: false, nullable: true,
x-kubernetes-preserve-unknown-fields: false, x-kubernetes-embedded-resource: true, x-kubernetes-int-or-string: true,
  x-kubernetes-list-map-keys: [k],
x-kubernetes-list-type: "", x-kubernetes-map-type: granular,
x-kubernetes-validations: [{rule: "self.a < self.b && true", message: "<m>", messageExpression: e, reason: FieldValueInvalid,
  fieldPath: .a, optionalOldSelf: false}, {rule: ""}]}`

// sealedOf seals a definition whose versions have these schemas; "" stands for none.
func sealedOf(t *testing.T, schemas ...string) *Sealed {
	t.Helper()
	c := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: "x.example"}}
	c.SetGroupVersionKind(CustomResourceDefinitions.GVK)
	c.Name, c.Annotations = "as.x.example", map[string]string{"said": `{"schema":{}}`}
	for i, text := range schemas {
		v := apiextensionsv1.CustomResourceDefinitionVersion{Name: fmt.Sprint("v", i), Served: true,
			Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}}
		if text != "" {
			v.Schema = &apiextensionsv1.CustomResourceValidation{}
			if err := yaml.Unmarshal([]byte(`{"openAPIV3Schema": `+text+`}`), v.Schema); err != nil {
				t.Fatal(err)
			}
		}
		c.Spec.Versions = append(c.Spec.Versions, v)
	}
	return CustomResourceDefinitions.Pack(c, nil, 7).(*Sealed)
}

// The JSON that is made of what is stored is that of the tree.
func TestMakeJSON(t *testing.T) {
	for name, test := range map[string]struct {
		s     *Sealed
		quick bool
	}{
		"everything":          {sealedOf(t, everything), true},
		"several":             {sealedOf(t, "{}", everything, "", mixedItems, plain), true},
		"none":                {sealedOf(t), true},
		"no schema":           {sealedOf(t, ""), true},
		"an empty one":        {sealedOf(t, "null"), true},
		"lists of items":      {sealedOf(t, mixed), false},
		"lists of names":      {sealedOf(t, `{dependencies: {p: [q]}}`), false},
		"large":               {seal(largeDefinition(t), nil, 3).(*Sealed), true},
		"stored in a new way": {strangely(t), false},
	} {
		t.Run(name, func(t *testing.T) {
			want, err := codec.MarshalJSON(test.s.read())
			if err != nil {
				t.Fatal(err)
			}
			got, err := test.s.MakeJSON()
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got, want)
			}
			outline, err := codec.MarshalJSON(test.s.outline)
			if err != nil {
				t.Fatal(err)
			}
			if quick := withSchemas(outline, test.s.stored) != nil; quick != test.quick {
				t.Errorf("%s: made quickly: %v", name, quick)
			}
		})
	}
}

var mixedItems = strings.NewReplacer("f: {items: [{type: string}, {type: object, properties: {g: {}}}]}",
	"f: {items: {items: {type: string}}}", "p: [q], ", "").Replace(mixed)

// strangely is stored with the fields of a schema in another order.
func strangely(t *testing.T) *Sealed {
	s := sealedOf(t, "{type: a, format: b}")
	if s.stored = bytes.Replace(s.stored, []byte("\x2a\x01a\x32\x01b"), []byte("\x32\x01b\x2a\x01a"),
		1); s.read().Spec.Versions[0].Schema.OpenAPIV3Schema.Type != "a" {
		t.Fatal("it can't be read")
	}
	return s
}

func TestEverythingHasAllFields(t *testing.T) {
	schema := sealedOf(t, everything).read().Spec.Versions[0].Schema.OpenAPIV3Schema
	for v, i := reflect.ValueOf(*schema), 0; i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("%s is missing", v.Type().Field(i).Name)
		}
	}
}

func FuzzTranscript(f *testing.F) {
	f.Add([]byte{8, 1})
	f.Fuzz(func(_ *testing.T, data []byte) { // whatever is stored, it does not panic
		w := protoJSON{}
		w.message(validationLayout(), data)
	})
}
