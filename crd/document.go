package crd

import (
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

const objectMeta = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

// openAPI is the schema as clients may read it; nil when there is none.
func (v *version) openAPI() (*spec.Schema, error) {
	make := v.compileSchema // who reads documents needs the schemas of all kinds, but once
	if v.used.Load() {
		make = v.schema
	}
	s, err := make()
	if s == nil || err != nil {
		return nil, err
	}
	doc := s.Unfold().ToKubeOpenAPI()
	complete(doc)
	var fields []any
	for _, f := range v.spec.SelectableFields {
		fields = append(fields, map[string]any{"fieldPath": fieldLabel(f.JSONPath)})
	}
	if fields != nil {
		doc.AddExtension("x-kubernetes-selectable-fields", fields)
	}
	return doc, nil
}

// complete gives embedded objects the fields that every object has, which definitions leave out.
func complete(s *spec.Schema) {
	for name, p := range s.Properties {
		complete(&p)
		s.Properties[name] = p
	}
	if s.Items != nil && s.Items.Schema != nil {
		complete(s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		complete(s.AdditionalProperties.Schema)
	}
	if is, ok := s.Extensions.GetBool("x-kubernetes-embedded-resource"); !ok || !is {
		return
	}
	s.SetProperty("apiVersion", *spec.StringProperty().WithDescription(
		"apiVersion defines the versioned schema of this representation of an object."))
	s.SetProperty("kind", *spec.StringProperty().WithDescription("kind is a string value representing the type of this object."))
	meta := spec.ComposedSchema(*spec.RefSchema(objectMeta)) // what stands beside a reference counts for nothing
	s.SetProperty("metadata", *meta.WithDescription("Standard object's metadata."))
	for _, name := range []string{"kind", "apiVersion"} {
		if !slices.Contains(s.Required, name) {
			s.Required = append(s.Required, name)
		}
	}
}

// OpenAPI is the schema of one version of a definition as clients may read it; nil when it has none, or there is no
// such version.
func OpenAPI(def *apiextensionsv1.CustomResourceDefinition, name string) (*spec.Schema, error) {
	k, err := NewKind(def)
	if err != nil {
		return nil, err
	}
	for _, v := range k.(*Kind).all {
		if v.spec.Name == name {
			return v.openAPI()
		}
	}
	return nil, nil
}
