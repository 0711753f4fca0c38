package apiextensions

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/yaml"
)

const (
	mixed = `{type: object, description: d, required: [a], x-kubernetes-validations: [{rule: "true"}],
  oneOf: [{required: [a]}], not: {type: string},
properties: {a: {type: string, default: x, enum: [x, y]}, b: {type: array, items: {type: object, properties: {c: {type: integer,
  maximum: 3}}}},
d: {type: object, additionalProperties: {type: string}}, e: {type: object, additionalProperties: false},
  f: {items: [{type: string}, {type: object, properties: {g: {}}}]}},
patternProperties: {x: {type: string}}, definitions: {z: {type: object, properties: {y: {}}}}, dependencies: {p: [q], r: {type: string}}}`
	plain = `{type: object}`
)

func TestInternal(t *testing.T) {
	for name, list := range map[string][]string{
		"none": {}, "one": {mixed}, "alike": {mixed, mixed}, "unlike": {mixed, plain}, "missing": {mixed, ""}, "all missing": {"", ""},
		"alike when read": {`{default: {a: 1, b: 2}}`, `{default: {b: 2, a: 1}}`}, "no properties": {`{properties: {}}`},
		"no items": {`{items: []}`},
	} {
		t.Run(name, func(t *testing.T) {
			c := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: "g",
				Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "K"}}}
			for i, text := range list {
				v := apiextensionsv1.CustomResourceDefinitionVersion{Name: fmt.Sprint("v", i), Served: true,
					Subresources: &apiextensionsv1.CustomResourceSubresources{}}
				if text != "" {
					v.Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{}}
					if err := yaml.Unmarshal([]byte(text), v.Schema.OpenAPIV3Schema); err != nil {
						t.Fatal(err)
					}
				}
				c.Spec.Versions = append(c.Spec.Versions, v)
			}
			before, want := c.DeepCopy(), &apiextensions.CustomResourceDefinition{}
			if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(c.DeepCopy(), want,
				nil); err != nil {
				t.Fatal(err)
			}
			got, err := internal(c)
			if err != nil || !equality.Semantic.DeepEqual(got, want) {
				t.Errorf("got %+v, %v\nwant %+v", got, err, want)
			}
			if !equality.Semantic.DeepEqual(c, before) {
				t.Error("the definition has changed")
			}
		})
	}
	c := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
			{Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Properties: map[string]apiextensionsv1.JSONSchemaProps{
					"a": {Default: &apiextensionsv1.JSON{Raw: []byte("{")}}}}}}}}}
	if _, err := internal(c); err == nil || !strings.Contains(err.Error(), "unexpected") {
		t.Errorf("a default that is no JSON: %v", err)
	}
}
