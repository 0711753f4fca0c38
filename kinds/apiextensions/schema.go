package apiextensions

import (
	"context"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// schema checks that a version's schema is structural, that its types and lists make sense, that its defaults
// fit it and that its rules compile.
func schema(v *v1.CustomResourceDefinitionVersion, path *field.Path) (errs field.ErrorList) {
	path = path.Child("openAPIV3Schema")
	var in apiextensions.JSONSchemaProps
	if err := v1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, &in, nil); err != nil {
		return field.ErrorList{field.Invalid(path, "", err.Error())}
	}
	errs = shape(&in, path)
	s, err := structural.NewStructural(&in)
	if err != nil {
		if len(errs) == 0 { // else it says the same again
			errs = append(errs, field.Invalid(path, "", err.Error()))
		}
		return errs
	}
	errs = append(errs, structural.ValidateStructural(path, s)...)
	if len(errs) > 0 {
		return errs
	}
	defaults, err := defaulting.ValidateDefaults(context.Background(), path, s, true, true)
	if err != nil {
		return append(errs, field.Invalid(path, "", err.Error()))
	}
	errs = append(errs, defaults...)
	return append(errs, celRules(s, path)...)
}
