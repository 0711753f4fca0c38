//go:build !reader

package apiextensions

import (
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// internal returns a definition in upstream's inner form, which shares memory with it; nil stays nil.
func internal(c crd) (*definition, error) {
	if c == nil {
		return nil, nil
	}
	out := &definition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(Outline(c), out, nil); err != nil {
		return nil, err
	}
	return out, innerSchemas(c.Spec.Versions, &out.Spec)
}

// innerSchemas gives the schemas to what was made of an outline: to all versions at once if they have the same.
func innerSchemas(from []apiextensionsv1.CustomResourceDefinitionVersion, to *spec) error {
	in, same := internalConversion{}, true
	for i := range from {
		s, err := in.validation(from[i].Schema)
		if err != nil {
			return err
		}
		to.Versions[i].Schema = s
		same = same && (i == 0 || equality.Semantic.DeepEqual(s, to.Versions[0].Schema))
	}
	if to.Validation = nil; !same || len(from) == 0 {
		return nil
	}
	to.Validation = to.Versions[0].Schema
	for i := range to.Versions {
		to.Versions[i].Schema = nil
	}
	return nil
}

// internalConversion converts schemas. Upstream's generated code makes three copies of each; it is asked for what is not below others,
// by way of what is here.
type internalConversion struct {
	flat apiextensionsv1.JSONSchemaProps
	made props
}

func (in *internalConversion) validation(from *apiextensionsv1.CustomResourceValidation) (*apiextensions.CustomResourceValidation, error) {
	if from == nil {
		return nil, nil
	}
	s, err := in.pointed(from.OpenAPIV3Schema)
	return &apiextensions.CustomResourceValidation{OpenAPIV3Schema: s}, err
}

func (in *internalConversion) pointed(from *apiextensionsv1.JSONSchemaProps) (*props, error) {
	if from == nil {
		return nil, nil
	}
	to, err := in.schema(*from)
	return &to, err
}

// schema converts a schema node by node: the library's function gets each node without what lies below it.
func (in *internalConversion) schema(from apiextensionsv1.JSONSchemaProps) (to props, err error) {
	in.flat, in.made = from, props{}
	in.flat.Properties, in.flat.Items, in.flat.AdditionalProperties = nil, nil, nil
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&in.flat, &in.made, nil); err != nil {
		return to, err
	}
	to = in.made
	if from.Properties != nil {
		to.Properties = make(map[string]props, len(from.Properties))
	}
	for name, p := range from.Properties {
		if to.Properties[name], err = in.schema(p); err != nil {
			return to, err
		}
	}
	if b := from.AdditionalProperties; b != nil {
		to.AdditionalProperties = &apiextensions.JSONSchemaPropsOrBool{Allows: b.Allows}
		if to.AdditionalProperties.Schema, err = in.pointed(b.Schema); err != nil {
			return to, err
		}
	}
	if from.Items == nil {
		return to, nil
	}
	to.Items = &apiextensions.JSONSchemaPropsOrArray{}
	if from.Items.JSONSchemas != nil {
		to.Items.JSONSchemas = make([]props, len(from.Items.JSONSchemas))
	}
	for i := range from.Items.JSONSchemas {
		if to.Items.JSONSchemas[i], err = in.schema(from.Items.JSONSchemas[i]); err != nil {
			return to, err
		}
	}
	to.Items.Schema, err = in.pointed(from.Items.Schema)
	return to, err
}
