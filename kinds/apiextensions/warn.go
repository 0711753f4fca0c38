package apiextensions

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiserver/pkg/cel/environment"
	openapi "k8s.io/kube-openapi/pkg/validation/spec"
)

// warnDefinition warns of formats that nobody knows and of sets of what is no scalar, unless they were there before.
func warnDefinition(c, old crd) (list []string) {
	formats, sets := oddities(c)
	var oldFormats, oldSets []string
	if old != nil {
		oldFormats, oldSets = oddities(old)
	}
	for _, f := range formats {
		if !slices.Contains(oldFormats, f) {
			list = append(list, fmt.Sprintf("unrecognized format %q", f))
		}
	}
	for _, typ := range sets {
		if !slices.Contains(oldSets, typ) {
			list = append(list, fmt.Sprintf("x-kubernetes-list-type: set for items of type %q is not supported by server-side apply or CEL validation rules", typ))
		}
	}
	return list
}

// oddities are the formats of a definition that nobody knows, each as often as it is there, and the types of the items of its
// sets that are no scalars.
func oddities(c crd) (formats, sets []string) {
	in, err := internal(c)
	if err != nil {
		return nil, nil
	}
	types := map[string]bool{}
	anySchema(&in.Spec, anywhere(func(s *props) bool {
		if s.Format != "" {
			one := &openapi.Schema{SchemaProps: openapi.SchemaProps{Format: s.Format, Type: []string{s.Type}}}
			formats = append(formats, validation.GetUnrecognizedFormats(one, environment.DefaultCompatibilityVersion())...)
		}
		if s.XListType != nil && *s.XListType == "set" && s.Items != nil && s.Items.Schema != nil && (s.Items.Schema.Type == "object" || s.Items.Schema.Type == "array") {
			types[s.Items.Schema.Type] = true
		}
		return false
	}))
	return formats, slices.Sorted(maps.Keys(types))
}
