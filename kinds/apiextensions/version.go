package apiextensions

import (
	"slices"
	"strings"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
)

// The limits of a version.
const (
	maxDeprecation      = 256
	maxSelectableFields = 8
)

// versions checks the versions. What all of them have in common is reported as upstream's internal form has
// it, once and outside of the list: spec.validation rather than spec.versions[0].schema.
func versions(c, old crd, spec *field.Path) (errs field.ErrorList) {
	list, path := c.Spec.Versions, spec.Child("versions")
	stored, seen, unique := 0, map[string]bool{}, true
	one := func(same func(a, b *v1.CustomResourceDefinitionVersion) bool) bool {
		return !slices.ContainsFunc(list, func(v v1.CustomResourceDefinitionVersion) bool { return !same(&list[0], &v) })
	}
	schemas := one(func(a, b *v1.CustomResourceDefinitionVersion) bool { return rule.Same(a.Schema, b.Schema) })
	subs := one(func(a, b *v1.CustomResourceDefinitionVersion) bool { return rule.Same(a.Subresources, b.Subresources) })
	columns := one(func(a, b *v1.CustomResourceDefinitionVersion) bool {
		return rule.Same(a.AdditionalPrinterColumns, b.AdditionalPrinterColumns)
	})
	for i := range list {
		v, at := &list[i], path.Index(i)
		if v.Storage {
			stored++
		}
		unique = unique && !seen[v.Name]
		seen[v.Name] = true
		if says := validation.IsDNS1035Label(v.Name); len(says) > 0 {
			errs = append(errs, field.Invalid(at.Child("name"), v.Name, strings.Join(says, ",")))
		}
		errs = append(errs, deprecation(v, at.Child("deprecationWarning"))...)
		if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			errs = append(errs, field.Required(at.Child("schema", "openAPIV3Schema"), ""))
		} else if (i == 0 || !schemas) && !unchanged(v, old) {
			errs = append(errs, schema(v, place(schemas, spec.Child("validation"), at.Child("schema")))...)
		}
		if i == 0 || !subs {
			errs = append(errs, subresources(v.Subresources, place(subs, spec.Child("subresources"), at.Child("subresources")))...)
		}
		if i == 0 || !columns {
			errs = append(errs, printerColumns(v.AdditionalPrinterColumns, place(columns, spec.Child("additionalPrinterColumns"), at.Child("additionalPrinterColumns")))...)
		}
		errs = append(errs, selectable(v.SelectableFields, at.Child("selectableFields"))...)
	}
	if !unique {
		errs = append(errs, field.Invalid(path, nil, "must contain unique version names"))
	}
	if stored != 1 {
		errs = append(errs, field.Invalid(path, nil, "must have exactly one version marked as storage version"))
	}
	return errs
}

func place(common bool, top, own *field.Path) *field.Path {
	if common {
		return top
	}
	return own
}

// unchanged reports whether the stored definition has the same schema: it was checked then.
func unchanged(v *v1.CustomResourceDefinitionVersion, old crd) bool {
	if old == nil {
		return false
	}
	return slices.ContainsFunc(old.Spec.Versions, func(o v1.CustomResourceDefinitionVersion) bool {
		return o.Name == v.Name && equality.Semantic.DeepEqual(o.Schema, v.Schema) &&
			equality.Semantic.DeepEqual(o.Subresources, v.Subresources)
	})
}

func deprecation(v *v1.CustomResourceDefinitionVersion, path *field.Path) (errs field.ErrorList) {
	w := v.DeprecationWarning
	switch {
	case w == nil:
	case !v.Deprecated:
		errs = append(errs, field.Invalid(path, *w, "can only be set for deprecated versions"))
	case strings.TrimSpace(*w) == "":
		errs = append(errs, field.Invalid(path, *w, "must not be empty"))
	case len(*w) > maxDeprecation:
		errs = append(errs, field.Invalid(path, *w, "must be <= 256 characters"))
	}
	return errs
}

func subresources(s *v1.CustomResourceSubresources, path *field.Path) (errs field.ErrorList) {
	if s == nil || s.Scale == nil {
		return nil
	}
	at := path.Child("scale")
	for _, f := range []struct{ name, value, root string }{
		{"specReplicasPath", s.Scale.SpecReplicasPath, ".spec."}, {"statusReplicasPath", s.Scale.StatusReplicasPath, ".status."},
	} {
		errs = append(errs, rule.Needed(f.value, at.Child(f.name))...)
		if f.value != "" && !strings.HasPrefix(f.value, f.root) {
			errs = append(errs, field.Invalid(at.Child(f.name), f.value, "should be a json path under "+strings.TrimSuffix(f.root, ".")))
		}
		errs = append(errs, simplePath(f.value, at.Child(f.name))...)
	}
	if l := s.Scale.LabelSelectorPath; l != nil && *l != "" {
		errs = append(errs, simplePath(*l, at.Child("labelSelectorPath"))...)
		if !strings.HasPrefix(*l, ".spec.") && !strings.HasPrefix(*l, ".status.") {
			errs = append(errs, field.Invalid(at.Child("labelSelectorPath"), *l, "should be a json path under either .spec or .status"))
		}
	}
	return errs
}

// simplePath checks a path of plain fields: .spec.replicas.
func simplePath(s string, path *field.Path) field.ErrorList {
	if s == "" {
		return nil
	}
	if !strings.HasPrefix(s, ".") || s == "." || strings.ContainsAny(s, "[]") {
		return field.ErrorList{field.Invalid(path, s, "must be a simple json path starting with .")}
	}
	return nil
}

var columnTypes = []string{"integer", "number", "string", "boolean", "date"}

var columnFormats = []string{"int32", "int64", "float", "double", "byte", "date", "date-time", "password"}

func printerColumns(list []v1.CustomResourceColumnDefinition, path *field.Path) (errs field.ErrorList) {
	for i, c := range list {
		at := path.Index(i)
		errs = append(errs, rule.Needed(c.Name, at.Child("name"))...)
		errs = append(errs, rule.Needed(c.Type, at.Child("type"))...)
		if c.Type != "" && !slices.Contains(columnTypes, c.Type) {
			errs = append(errs, field.Invalid(at.Child("type"), c.Type, "must be one of "+strings.Join(columnTypes, ",")))
		}
		if c.Format != "" && !slices.Contains(columnFormats, c.Format) {
			errs = append(errs, field.Invalid(at.Child("format"), c.Format, "must be one of "+strings.Join(columnFormats, ",")))
		}
		errs = append(errs, rule.Needed(c.JSONPath, at.Child("jsonPath"))...)
	}
	return errs
}

func selectable(list []v1.SelectableField, path *field.Path) (errs field.ErrorList) {
	if len(list) > maxSelectableFields {
		errs = append(errs, field.TooMany(path, len(list), maxSelectableFields))
	}
	seen := map[string]bool{}
	for i, f := range list {
		at := path.Index(i).Child("jsonPath")
		switch {
		case f.JSONPath == "":
			errs = append(errs, field.Required(at, ""))
		case seen[f.JSONPath]:
			errs = append(errs, field.Duplicate(at, f.JSONPath))
		case strings.HasPrefix(f.JSONPath, ".metadata"):
			errs = append(errs, field.Invalid(at, f.JSONPath, "must not point to fields in metadata"))
		default:
			errs = append(errs, simplePath(f.JSONPath, at)...)
		}
		seen[f.JSONPath] = true
	}
	return errs
}
