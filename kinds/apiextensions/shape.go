package apiextensions

import (
	"maps"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

type props = apiextensions.JSONSchemaProps

var schemaTypes = []string{"array", "boolean", "integer", "number", "object", "string"}

// shape walks a schema and checks what being structural does not cover: types, lists, and what is forbidden.
func shape(s *props, path *field.Path) (errs field.ErrorList) {
	errs = append(errs, here(s, path)...)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		errs = append(errs, shape(&p, path.Child("properties").Key(name))...)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		errs = append(errs, shape(s.AdditionalProperties.Schema, path.Child("additionalProperties"))...)
	}
	if s.Items != nil {
		if s.Items.Schema != nil {
			errs = append(errs, shape(s.Items.Schema, path.Child("items"))...)
		}
		if len(s.Items.JSONSchemas) > 0 {
			errs = append(errs, field.Forbidden(path.Child("items"), "items must be a schema object and not an array"))
		}
	}
	return errs
}

func here(s *props, path *field.Path) (errs field.ErrorList) {
	if s.Type != "" && !slices.Contains(schemaTypes, s.Type) {
		errs = append(errs, field.NotSupported(path.Child("type"), s.Type, schemaTypes))
	}
	if s.UniqueItems {
		errs = append(errs, field.Forbidden(path.Child("uniqueItems"), "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"))
	}
	if a := s.AdditionalProperties; a != nil {
		if len(s.Properties) > 0 && (a.Allows || a.Schema != nil) {
			errs = append(errs, field.Forbidden(path.Child("additionalProperties"), "additionalProperties and properties are mutual exclusive"))
		}
	}
	for name, set := range map[string]bool{"definitions": len(s.Definitions) > 0, "dependencies": len(s.Dependencies) > 0,
		"id": s.ID != "", "patternProperties": len(s.PatternProperties) > 0, "$ref": s.Ref != nil,
		"additionalItems": s.AdditionalItems != nil} {
		if set {
			errs = append(errs, field.Forbidden(path.Child(name), name+" is not supported"))
		}
	}
	if s.Type == "null" {
		errs = append(errs, field.Forbidden(path.Child("type"), "type cannot be set to null, use nullable as an alternative"))
	}
	if s.Items != nil && s.Type != "array" && s.Type != "" {
		errs = append(errs, field.Invalid(path.Child("type"), s.Type, "must be array if items is specified"))
	}
	errs = append(errs, texts(s.XValidations, path.Child("x-kubernetes-validations"))...)
	return append(errs, listAndMap(s, path)...)
}

// listAndMap checks the extensions that say how lists and maps are merged.
func listAndMap(s *props, path *field.Path) (errs field.ErrorList) {
	typ, keys := path.Child("x-kubernetes-list-type"), path.Child("x-kubernetes-list-map-keys")
	if t := s.XListType; t != nil {
		switch {
		case s.Type != "array":
			errs = append(errs, field.Invalid(path.Child("type"), s.Type, "must be array if x-kubernetes-list-type is specified"))
		case *t != "atomic" && *t != "set" && *t != "map":
			errs = append(errs, field.NotSupported(typ, *t, []string{"atomic", "set", "map"}))
		case *t == "map" && len(s.XListMapKeys) == 0:
			errs = append(errs, field.Required(keys, "must not be empty if x-kubernetes-list-type is map"))
		case *t == "map":
			errs = append(errs, mapKeys(s, path, keys)...)
		}
	}
	if len(s.XListMapKeys) > 0 && (s.XListType == nil || *s.XListType != "map") {
		if s.XListType == nil {
			errs = append(errs, field.Required(typ, "must be map if x-kubernetes-list-map-keys is non-empty"))
		} else {
			errs = append(errs, field.Invalid(typ, *s.XListType, "must be map if x-kubernetes-list-map-keys is non-empty"))
		}
	}
	if t := s.XMapType; t != nil {
		if s.Type != "object" {
			errs = append(errs, field.Invalid(path.Child("type"), s.Type, "must be object if x-kubernetes-map-type is specified"))
		}
		if *t != "atomic" && *t != "granular" {
			errs = append(errs, field.NotSupported(path.Child("x-kubernetes-map-type"), *t, []string{"atomic", "granular"}))
		}
	}
	return errs
}

func mapKeys(s *props, path, keys *field.Path) (errs field.ErrorList) {
	if s.Items == nil || s.Items.Schema == nil {
		return field.ErrorList{field.Required(path.Child("items"), "must have a schema if x-kubernetes-list-type is map")}
	}
	item := s.Items.Schema
	if item.Type != "object" {
		errs = append(errs, field.Invalid(path.Child("items", "type"), item.Type, "must be object if parent array's x-kubernetes-list-type is map"))
	}
	for i, k := range s.XListMapKeys {
		p, ok := item.Properties[k]
		switch {
		case slices.Contains(s.XListMapKeys[:i], k):
			errs = append(errs, field.Invalid(keys, s.XListMapKeys, "must not contain duplicate entries"))
		case !ok:
			errs = append(errs, field.Invalid(keys, s.XListMapKeys, "entries must all be names of item properties"))
		case p.Type == "array" || p.Type == "object":
			errs = append(errs, field.Invalid(path.Child("items", "properties").Key(k).Child("type"), p.Type, "must be a scalar type if parent array's x-kubernetes-list-type is map"))
		case !slices.Contains(item.Required, k) && p.Default == nil:
			errs = append(errs, field.Required(path.Child("items", "properties").Key(k).Child("default"),
				"this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"))
		}
	}
	return errs
}
