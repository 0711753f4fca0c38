package apiextensions

import (
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiserver/pkg/cel/environment"
	openapi "k8s.io/kube-openapi/pkg/validation/spec"
)

// odd says that a schema, or one below it, is one to warn of.
func odd(s v1.JSONSchemaProps) bool {
	if s.Format != "" && len(unknownFormats(s.Format, s.Type)) > 0 || s.XListType != nil && *s.XListType == "set" {
		return true
	}
	in := func(s *v1.JSONSchemaProps) bool { return s != nil && odd(*s) }
	if in(s.Not) {
		return true
	}
	lists := [...][]v1.JSONSchemaProps{s.AllOf, s.AnyOf, s.OneOf, nil}
	if s.Items != nil {
		lists[3] = s.Items.JSONSchemas
		if in(s.Items.Schema) {
			return true
		}
	}
	for _, l := range lists {
		for i := range l {
			if odd(l[i]) {
				return true
			}
		}
	}
	for _, m := range [...]map[string]v1.JSONSchemaProps{s.Properties, s.PatternProperties, s.Definitions} {
		for _, p := range m {
			if odd(p) {
				return true
			}
		}
	}
	for _, b := range [...]*v1.JSONSchemaPropsOrBool{s.AdditionalProperties, s.AdditionalItems} {
		if b != nil && in(b.Schema) {
			return true
		}
	}
	for _, d := range s.Dependencies {
		if in(d.Schema) {
			return true
		}
	}
	return false
}

// unknownFormats is the format of a type if nobody knows it.
func unknownFormats(format, typ string) []string {
	one := &openapi.Schema{SchemaProps: openapi.SchemaProps{Format: format, Type: []string{typ}}}
	return validation.GetUnrecognizedFormats(one, environment.DefaultCompatibilityVersion())
}
