//go:build !reader

package apiextensions

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The limits of a version.
const (
	maxDeprecation      = 256
	maxSelectableFields = 8
)

// versions checks the versions, as far as they differ.
func versions(s *spec, l ratcheting, top *field.Path) (errs field.ErrorList) {
	path := top.Child("versions")
	stored, seen, unique := 0, map[string]bool{}, true
	apart := slices.ContainsFunc(s.Versions, func(v version) bool { return v.Subresources != nil }) // else all have the same
	for i := range s.Versions {
		v, at := &s.Versions[i], path.Index(i)
		if v.Storage {
			stored++
		}
		unique = unique && !seen[v.Name]
		seen[v.Name] = true
		if says := validation.IsDNS1035Label(v.Name); len(says) > 0 {
			errs = append(errs, field.Invalid(at.Child("name"), v.Name, strings.Join(says, ",")))
		}
		for _, says := range deprecation(v) {
			errs = append(errs, field.Invalid(at.Child("deprecationWarning"), v.DeprecationWarning, says))
		}
		subs := s.Subresources
		if apart {
			subs = v.Subresources
		}
		errs = append(errs, schemaRules(v.Schema, hasStatus(subs), l, v.Name, at.Child("schema"))...)
		errs = append(errs, subresources(v.Subresources, at.Child("subresources"))...)
		errs = append(errs, printerColumns(v.AdditionalPrinterColumns, at.Child("additionalPrinterColumns"))...)
		if len(v.SelectableFields) == 0 {
			continue
		}
		if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			errs = append(errs, field.Invalid(at.Child("selectableFields"), "",
				"may only be set when `version.schema.openAPIV3Schema` is not included"))
			continue
		}
		errs = append(errs, selectable(v.SelectableFields, v.Schema.OpenAPIV3Schema, l.many[v.Name], at)...)
	}
	if !unique {
		errs = append(errs, field.Invalid(path, s.Versions, "must contain unique version names"))
	}
	if stored != 1 {
		errs = append(errs, field.Invalid(path, s.Versions, "must have exactly one version marked as storage version"))
	}
	return errs
}

// common checks what all versions have in common.
func common(s *spec, l ratcheting, path *field.Path) field.ErrorList {
	status := hasStatus(s.Subresources) || slices.ContainsFunc(s.Versions, func(v version) bool { return hasStatus(v.Subresources) })
	errs := schemaRules(s.Validation, status, l, s.Version, path.Child("validation"))
	errs = append(errs, subresources(s.Subresources, path.Child("subresources"))...)
	errs = append(errs, printerColumns(s.AdditionalPrinterColumns, path.Child("additionalPrinterColumns"))...)
	switch {
	case len(s.SelectableFields) == 0:
		return errs
	case s.Validation == nil || s.Validation.OpenAPIV3Schema == nil: // a schema may be there and hold nothing
		return append(errs, field.Invalid(path.Child("selectableFields"), "", "may only be set when validations.schema is included"))
	}
	return append(errs, selectable(s.SelectableFields, s.Validation.OpenAPIV3Schema, l.many[""], path)...)
}

func hasStatus(s *apiextensions.CustomResourceSubresources) bool {
	return s != nil && s.Status != nil
}

// deprecation becomes a Warning header of each answer, which is why it is short and printable.
func deprecation(v *version) (says []string) {
	switch {
	case v.DeprecationWarning == nil:
		return nil
	case !v.Deprecated:
		return []string{"can only be set for deprecated versions"}
	}
	w := *v.DeprecationWarning
	if len(w) > maxDeprecation {
		says = append(says, "must be <= 256 characters long")
	}
	if w == "" {
		says = append(says, "must not be an empty string")
	}
	if i := strings.IndexFunc(w, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
		says = append(says, fmt.Sprintf("must only contain printable UTF-8 characters; non-printable character found at index %d", i))
	}
	if !utf8.ValidString(w) {
		says = append(says, "must only contain printable UTF-8 characters")
	}
	return says
}

// subresources name by simple paths what /scale reads and writes. They must lie below .spec and .status: the one is written by
// autoscalers, the other by the controller.
func subresources(s *apiextensions.CustomResourceSubresources, path *field.Path) (errs field.ErrorList) {
	if s == nil || s.Scale == nil {
		return nil
	}
	for _, f := range []struct{ name, value, root string }{
		{"scale.specReplicasPath", s.Scale.SpecReplicasPath, ".spec"}, {"scale.statusReplicasPath", s.Scale.StatusReplicasPath, ".status"},
	} {
		at := path.Child(f.name)
		switch list := simplePath(f.value, at); {
		case f.value == "":
			errs = append(errs, field.Required(at, ""))
		case len(list) > 0:
			errs = append(errs, list...)
		case !strings.HasPrefix(f.value, f.root+"."):
			errs = append(errs, field.Invalid(at, f.value, "should be a json path under "+f.root))
		}
	}
	if l := s.Scale.LabelSelectorPath; l != nil && *l != "" {
		at := path.Child("scale.labelSelectorPath")
		if list := simplePath(*l, at); len(list) > 0 {
			return append(errs, list...)
		}
		if !strings.HasPrefix(*l, ".spec.") && !strings.HasPrefix(*l, ".status.") {
			errs = append(errs, field.Invalid(at, l, "should be a json path under either .spec or .status"))
		}
	}
	return errs
}

// simplePath wants a path to begin as one of fields does: .spec.replicas. More is not looked at.
func simplePath(s string, path *field.Path) field.ErrorList {
	if s != "" && s[0] != '.' {
		return field.ErrorList{field.Invalid(path, s, "must be a simple json path starting with .")}
	}
	return nil
}

var (
	columnTypes   = []string{"boolean", "date", "integer", "number", "string"}
	columnFormats = []string{"byte", "date", "date-time", "double", "float", "int32", "int64", "password"}
)

// printerColumns are printed by kubectl get. Paths are not held to the schema: a column whose field is not there stays empty.
func printerColumns(list []apiextensions.CustomResourceColumnDefinition, path *field.Path) (errs field.ErrorList) {
	types, formats := "must be one of "+strings.Join(columnTypes, ","), "must be one of "+strings.Join(columnFormats, ",")
	for i, c := range list {
		at := path.Index(i)
		if c.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
		}
		if c.Type == "" {
			errs = append(errs, field.Required(at.Child("type"), types))
		} else if !slices.Contains(columnTypes, c.Type) {
			errs = append(errs, field.Invalid(at.Child("type"), c.Type, types))
		}
		if c.Format != "" && !slices.Contains(columnFormats, c.Format) {
			errs = append(errs, field.Invalid(at.Child("format"), c.Format, formats))
		}
		if c.JSONPath == "" {
			errs = append(errs, field.Required(at.Child("JSONPath"), ""))
		}
		errs = append(errs, simplePath(c.JSONPath, at.Child("JSONPath"))...)
	}
	return errs
}

// selectable checks fields by which objects are selected: they exist, and hold a scalar. many lets there be too many.
func selectable(list []apiextensions.SelectableField, of *props, many bool, top *field.Path) (errs field.ErrorList) {
	s, err := structural.NewStructural(of)
	if err != nil {
		errs = append(errs, field.Invalid(top.Child("schema.openAPIV3Schema"), "", err.Error()))
		return errs
	}
	path, seen := top.Child("selectableFields"), sets.New[string]()
	for i, f := range list {
		at := path.Index(i).Child("jsonPath")
		if f.JSONPath == "" {
			errs = append(errs, field.Required(at, ""))
			continue
		}
		where, found, err := cel.ValidFieldPath(f.JSONPath, s, cel.WithFieldPathAllowArrayNotation(false))
		if err != nil {
			errs = append(errs, field.Invalid(at, f.JSONPath, fmt.Sprintf("is an invalid path: %v", err)))
			continue
		}
		if where.Root().String() == "metadata" {
			errs = append(errs, field.Invalid(at, f.JSONPath, "must not point to fields in metadata"))
		}
		if found == nil || found.Type != "string" && found.Type != "boolean" && found.Type != "integer" {
			errs = append(errs, field.Invalid(at, f.JSONPath,
				"must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."))
		}
		if seen.Has(where.String()) {
			errs = append(errs, field.Duplicate(at, f.JSONPath))
		}
		seen.Insert(where.String())
	}
	if len(seen) > maxSelectableFields && !many {
		errs = append(errs, field.TooMany(path, len(seen), maxSelectableFields))
	}
	return errs
}
