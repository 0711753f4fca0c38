//go:build !reader

package apiextensions

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// schemaRules checks that a version's schema is structural, that its types and lists make sense, that its defaults
// fit it and that its rules compile. status says that status is a subresource.
func schemaRules(v *apiextensions.CustomResourceValidation, status bool, l ratcheting, name string, path *field.Path) field.ErrorList {
	if v == nil || v.OpenAPIV3Schema == nil {
		return nil
	}
	return rootRules(v.OpenAPIV3Schema, status, l, name, path.Child("openAPIV3Schema"))
}

// rootRules checks one version's schema: first that it is structural, which the rules in CEL need to know types by, then node by node,
// and last what all rules together cost.
func rootRules(s *props, status bool, l ratcheting, name string, path *field.Path) (errs field.ErrorList) {
	if status {
		errs = append(errs, rootFields(s, path)...)
	}
	if s.Nullable {
		errs = append(errs, field.Forbidden(path.Child("nullable"), "nullable cannot be true at the root"))
	}
	w := walk{l: l, same: l.same[name]}
	at := schemaPosition{path: path, root: true, known: true, times: 1}
	var broken *field.Error // says the same as others, unless there are none
	if !l.unstructural {
		t, list, err := structured(s, l, path)
		if err != nil {
			broken = field.Invalid(path, "", err.Error())
		}
		if errs = append(errs, list...); err == nil && len(list) == 0 {
			at.s = t
		}
	}
	schema, rules := w.visit(*s, at)
	errs = append(append(errs, schema...), rules...)
	if len(errs) == 0 && broken != nil {
		return field.ErrorList{broken}
	}
	return append(errs, w.bill.total(path)...)
}

// structured reads a schema as a structural one. The error says that it is not even near to one.
func structured(s *props, l ratcheting, path *field.Path) (*structural.Structural, field.ErrorList, error) {
	t, err := structural.NewStructural(s)
	if err != nil {
		return nil, nil, err
	}
	if errs := structural.ValidateStructural(path, t); len(errs) > 0 {
		return nil, errs, nil
	}
	errs, err := defaulting.ValidateDefaults(context.Background(), path, t, true, !l.unpruned)
	if err != nil {
		errs = field.ErrorList{field.Invalid(path, "", err.Error())}
	}
	return t, errs, nil
}

// rootNames are the fields allowed at the root of a schema when status is a subresource, as its schema is used alone then.
var rootNames = []string{"Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum", "ExclusiveMinimum",
	"MaxLength", "MinLength",
	"Pattern", "MaxItems", "MinItems", "UniqueItems", "MultipleOf", "Required", "Items", "Properties", "ExternalDocs", "Example",
	"XPreserveUnknownFields", "XValidations"}

// rootFields says which fields a root may have beside a status subresource. The list is upstream's.
func rootFields(s *props, path *field.Path) field.ErrorList {
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		switch name := v.Type().Field(i).Name; {
		case v.Field(i).IsZero():
		case name == "Type" && s.Type != "object":
			return field.ErrorList{field.Invalid(path.Child("type"), s.Type,
				`only "object" is allowed as the type at the root of the schema if the status subresource is enabled`)}
		case !slices.Contains(rootNames, name):
			return field.ErrorList{field.Invalid(path, *s,
				fmt.Sprintf("only %v fields are allowed at the root of the schema if the status subresource is enabled", rootNames))}
		}
	}
	return nil
}
