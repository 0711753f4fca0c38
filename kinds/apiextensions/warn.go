package apiextensions

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// warnDefinition warns of formats that nobody knows and of sets of what is no scalar, unless they were there before.
func warnDefinition(c, old crd) (list []string) {
	if old != nil && sameVersions(c, old) {
		return nil
	}
	formats, sets := oddities(c)
	if len(formats)+len(sets) == 0 {
		return nil
	}
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

// sameVersions says that the versions of two definitions are the very same in memory, as they are when only the status is written.
func sameVersions(a, b crd) bool {
	x, y := a.Spec.Versions, b.Spec.Versions
	return len(x) == len(y) && (len(x) == 0 || &x[0] == &y[0])
}

// oddities are the formats of a definition that nobody knows, each as often as it is there, and the types of the items of its
// sets that are no scalars.
func oddities(c crd) (formats, sets []string) {
	if !slices.ContainsFunc(c.Spec.Versions, func(v v1.CustomResourceDefinitionVersion) bool {
		return v.Schema != nil && v.Schema.OpenAPIV3Schema != nil && odd(*v.Schema.OpenAPIV3Schema)
	}) {
		return nil, nil
	}
	in := &spec{Versions: make([]version, len(c.Spec.Versions))} // schemas that versions share count once
	if err := innerSchemas(c.Spec.Versions, in); err != nil {
		return nil, nil
	}
	types := map[string]bool{}
	anySchema(in, anywhere(func(s props) bool {
		if s.Format != "" {
			formats = append(formats, unknownFormats(s.Format, s.Type)...)
		}
		if s.XListType != nil && *s.XListType == "set" && s.Items != nil && s.Items.Schema != nil && (s.Items.Schema.Type == "object" || s.Items.Schema.Type == "array") {
			types[s.Items.Schema.Type] = true
		}
		return false
	}))
	return formats, slices.Sorted(maps.Keys(types))
}
