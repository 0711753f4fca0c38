//go:build !reader

package apiextensions

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiserver/pkg/cel/environment"
	openapi "k8s.io/kube-openapi/pkg/validation/spec"
)

// unknownNames are the formats that nobody knows, and the types of the items of sets that are no scalars.
type unknownNames struct{ formats, sets map[string]bool }

func odditiesOf(c crd) unknownNames {
	o := unknownNames{map[string]bool{}, map[string]bool{}}
	for _, v := range c.Spec.Versions {
		if v.Schema != nil {
			o.below(v.Schema.OpenAPIV3Schema)
		}
	}
	return o
}

func (o unknownNames) below(s *apiextensionsv1.JSONSchemaProps) {
	if s != nil {
		o.visit(*s)
	}
}

// visit looks at a schema and all below it, as somewhere does for upstream's inner form, which costs more to make than this walk.
func (o unknownNames) visit(s apiextensionsv1.JSONSchemaProps) {
	if s.Format != "" {
		for _, f := range unknownFormats(s.Format, s.Type) {
			o.formats[f] = true
		}
	}
	o.below(s.Not)
	lists := [...][]apiextensionsv1.JSONSchemaProps{s.AllOf, s.AnyOf, s.OneOf, nil}
	if s.Items != nil {
		lists[3] = s.Items.JSONSchemas
		o.below(s.Items.Schema)
		if item := s.Items.Schema; item != nil && s.XListType != nil && *s.XListType == "set" && (item.Type == "object" || item.Type == "array") {
			o.sets[item.Type] = true
		}
	}
	for _, l := range lists {
		for i := range l {
			o.visit(l[i])
		}
	}
	for _, m := range [...]map[string]apiextensionsv1.JSONSchemaProps{s.Properties, s.PatternProperties, s.Definitions} {
		for _, p := range m {
			o.visit(p)
		}
	}
	for _, b := range [...]*apiextensionsv1.JSONSchemaPropsOrBool{s.AdditionalProperties, s.AdditionalItems} {
		if b != nil {
			o.below(b.Schema)
		}
	}
	for _, d := range s.Dependencies {
		o.below(d.Schema)
	}
}

// unknownFormats is the format of a type if nobody knows it.
func unknownFormats(format, typ string) []string {
	one := &openapi.Schema{SchemaProps: openapi.SchemaProps{Format: format, Type: []string{typ}}}
	return validation.GetUnrecognizedFormats(one, environment.DefaultCompatibilityVersion())
}
