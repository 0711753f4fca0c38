//go:build !reader

package apiextensions

import (
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
)

// Definitions are checked in the form that they have inside of upstream, where what all versions have in common stands
// above them: spec.validation rather than spec.versions[0].schema. Errors name fields of that form.

type (
	definition = apiextensions.CustomResourceDefinition
	spec       = apiextensions.CustomResourceDefinitionSpec
	version    = apiextensions.CustomResourceDefinitionVersion
	props      = apiextensions.JSONSchemaProps
)

// validateDefinition works on the internal form, as upstream's rules and the paths in their errors do. An update is held to less than a
// new definition: see ratchetingOf.
func validateDefinition(c, old crd) (errs field.ErrorList) {
	in, err := internal(c)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	was, err := internal(old)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	add := func(list field.ErrorList) { errs = append(errs, list...) }
	if was == nil {
		add(fixedName(c))
		add(specRules(&in.Spec, strict()))
	} else {
		add(specRules(&in.Spec, ratchetingOf(in, was)))
		add(frozen(in, was))
	}
	add(names(&in.Status.AcceptedNames, field.NewPath("status", "acceptedNames")))
	add(storedVersions(in, field.NewPath("status", "storedVersions")))
	add(approval(c, old))
	if c.Spec.PreserveUnknownFields && (old == nil || !old.Spec.PreserveUnknownFields) {
		add(field.ErrorList{field.Invalid(field.NewPath("spec", "preserveUnknownFields"), true,
			"cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead")})
	}
	return errs
}

// fixedName wants a definition to be named after what it defines.
func fixedName(c crd) (errs field.ErrorList) {
	want := c.Spec.Names.Plural + "." + c.Spec.Group
	for _, f := range []struct{ name, value string }{{"generateName", c.GenerateName}, {"name", c.Name}} {
		if f.value != "" && f.value != want {
			errs = append(errs, field.Invalid(field.NewPath("metadata", f.name), f.value, `must be spec.names.plural+"."+spec.group`))
		}
	}
	return errs
}

func validateDefinitionStatus(c, _ crd) field.ErrorList {
	in := apiextensions.CustomResourceDefinitionNames(c.Status.AcceptedNames)
	return names(&in, field.NewPath("status", "acceptedNames"))
}

// frozen refuses changes that would make stored objects unreachable.
func frozen(c, old *definition) (errs field.ErrorList) {
	path := field.NewPath("spec")
	if apiextensions.IsCRDConditionTrue(old, apiextensions.Established) {
		errs = append(errs, apivalidation.ValidateImmutableField(c.Spec.Scope, old.Spec.Scope, path.Child("scope"))...)
		errs = append(errs, apivalidation.ValidateImmutableField(c.Spec.Names.Kind, old.Spec.Names.Kind, path.Child("names", "kind"))...)
	}
	errs = append(errs, apivalidation.ValidateImmutableField(c.Spec.Group, old.Spec.Group, path.Child("group"))...)
	return append(errs, apivalidation.ValidateImmutableField(c.Spec.Names.Plural, old.Spec.Names.Plural, path.Child("names", "plural"))...)
}

// An Approval says whether the API of a protected group may be there.
type Approval int

// The approvals that there are.
const (
	ApprovalMissing Approval = iota
	ApprovalInvalid
	ApprovalGiven
	ApprovalWaived
)

// Protected says that a group is one of the Kubernetes project, whose APIs are approved first.
func Protected(group string) bool {
	return group == "k8s.io" || group == "kubernetes.io" || strings.HasSuffix(group, ".k8s.io") || strings.HasSuffix(group, ".kubernetes.io")
}

// ApprovalOf reads the sign of approval that protected groups need, and says what is wrong with it.
func ApprovalOf(c crd) (Approval, string) {
	const see = "see https://github.com/kubernetes/enhancements/pull/1111"
	said := c.Annotations[apiextensionsv1.KubeAPIApprovedAnnotation]
	if said == "" {
		return ApprovalMissing, fmt.Sprintf("protected groups must have approval annotation %q, %s",
			apiextensionsv1.KubeAPIApprovedAnnotation, see)
	}
	if strings.HasPrefix(said, "unapproved") {
		return ApprovalWaived, ""
	}
	if u, err := url.ParseRequestURI(said); err == nil && u.Host != "" && u.Scheme != "" {
		return ApprovalGiven, ""
	}
	return ApprovalInvalid, fmt.Sprintf(
		"protected groups must have approval annotation %q with either a URL or a reason starting with \"unapproved\", %s",
		apiextensionsv1.KubeAPIApprovedAnnotation, see)
}

// approval asks for a sign of approval, unless nothing changes in that.
func approval(c, old crd) field.ErrorList {
	if !Protected(c.Spec.Group) {
		return nil
	}
	is, says := ApprovalOf(c)
	if old != nil {
		if was, _ := ApprovalOf(old); was == is {
			return nil
		}
	}
	path := field.NewPath("metadata", "annotations").Key(apiextensionsv1.KubeAPIApprovedAnnotation)
	switch is {
	case ApprovalMissing:
		return field.ErrorList{field.Required(path, says)}
	case ApprovalInvalid:
		return field.ErrorList{field.Invalid(path, c.Annotations[apiextensionsv1.KubeAPIApprovedAnnotation], says)}
	}
	return nil
}

// names checks names that are there.
func names(n *apiextensions.CustomResourceDefinitionNames, path *field.Path) (errs field.ErrorList) {
	for _, f := range []struct {
		name, value string
		mixed       bool
	}{{"plural", n.Plural, false}, {"singular", n.Singular, false}, {"kind", n.Kind, true}, {"listKind", n.ListKind, true}} {
		if f.value == "" {
			continue
		}
		text, prefix := f.value, ""
		if f.mixed {
			text, prefix = strings.ToLower(text), "may have mixed case, but should otherwise match: "
		}
		if says := validation.IsDNS1035Label(text); len(says) > 0 {
			errs = append(errs, field.Invalid(path.Child(f.name), f.value, prefix+strings.Join(says, ",")))
		}
	}
	errs = append(errs, labels(n.ShortNames, path.Child("shortNames"))...)
	if n.Kind != "" && n.Kind == n.ListKind {
		errs = append(errs, field.Invalid(path.Child("listKind"), n.ListKind, "kind and listKind may not be the same"))
	}
	return append(errs, labels(n.Categories, path.Child("categories"))...)
}

func labels(list []string, path *field.Path) (errs field.ErrorList) {
	for i, v := range list {
		if says := validation.IsDNS1035Label(v); len(says) > 0 {
			errs = append(errs, field.Invalid(path.Index(i), v, strings.Join(says, ",")))
		}
	}
	return errs
}

// storedVersions checks that what may be stored can still be read.
func storedVersions(c *definition, path *field.Path) (errs field.ErrorList) {
	stored := c.Status.StoredVersions
	if len(stored) == 0 {
		return field.ErrorList{field.Invalid(path, stored, "must have at least one stored version")}
	}
	left := map[string]int{}
	for i, s := range stored {
		left[s] = i
	}
	for _, v := range c.Spec.Versions {
		if _, ok := left[v.Name]; v.Storage && !ok {
			errs = append(errs, field.Invalid(path, stored, "must have the storage version "+v.Name))
		}
		delete(left, v.Name)
	}
	for i, s := range stored {
		if at, ok := left[s]; ok && at == i {
			errs = append(errs, field.Invalid(path.Index(i), s,
				fmt.Sprintf("missing from spec.versions; %[1]s was previously a storage version, and must remain "+
					"in spec.versions until a storage migration ensures no data remains persisted in %[1]s and removes %[1]s from status.storedVersions",
					s)))
		}
	}
	return errs
}

// specRules checks the spec.
func specRules(s *spec, l ratcheting) (errs field.ErrorList) {
	path := field.NewPath("spec")
	add := func(list ...*field.Error) { errs = append(errs, list...) }
	if g := path.Child("group"); s.Group == "" {
		add(field.Required(g, ""))
	} else if says := validation.IsDNS1123Subdomain(s.Group); len(says) > 0 {
		add(field.Invalid(g, s.Group, strings.Join(says, ",")))
	} else if !strings.Contains(s.Group, ".") {
		add(field.Invalid(g, s.Group, "should be a domain with at least one dot"))
	}
	add(rule.Chosen(s.Scope, path.Child("scope"), apiextensions.ClusterScoped, apiextensions.NamespaceScoped)...)
	pruned := s.PreserveUnknownFields == nil || !*s.PreserveUnknownFields
	add(schemasThere(s, l, pruned, path)...)
	if anySchema(s, hasDefaults) && (s.PreserveUnknownFields == nil || *s.PreserveUnknownFields) {
		add(field.Invalid(path.Child("preserveUnknownFields"), true, "must be false in order to use defaults in the schema"))
	}
	l.unstructural = l.unstructural && !pruned && !anySchema(s, hasDefaults) && !anySchema(s, hasExtensions)
	add(versions(s, l, path)...)
	if s.Version != "" {
		add(rule.Format(s.Version, path.Child("version"), joined(validation.IsDNS1035Label))...)
	}
	for _, f := range []struct{ name, value string }{{"plural", s.Names.Plural}, {"singular", s.Names.Singular},
		{"kind", s.Names.Kind}, {"listKind", s.Names.ListKind}} {
		if f.value == "" {
			add(field.Required(path.Child("names", f.name), ""))
		}
	}
	add(names(&s.Names, path.Child("names"))...)
	add(common(s, l, path)...)
	if c := s.Conversion; c != nil && c.Strategy != apiextensions.NoneConverter &&
		(s.PreserveUnknownFields == nil || *s.PreserveUnknownFields) {
		add(field.Invalid(path.Child("conversion", "strategy"), c.Strategy, "must be None if spec.preserveUnknownFields is true"))
	}
	return append(errs, conversion(s.Conversion, l, path.Child("conversion"))...)
}

// joined makes one complaint of all.
func joined(check func(string) []string) func(string) []string {
	return func(text string) []string {
		if says := check(text); len(says) > 0 {
			return []string{strings.Join(says, ",")}
		}
		return nil
	}
}

// schemasThere asks for a schema of each version.
func schemasThere(s *spec, l ratcheting, pruned bool, path *field.Path) (errs field.ErrorList) {
	if s.Validation != nil && s.Validation.OpenAPIV3Schema != nil {
		return nil
	}
	for i, v := range s.Versions {
		at := path.Child("versions").Index(i).Child("schema", "openAPIV3Schema")
		switch missing := v.Schema == nil || v.Schema.OpenAPIV3Schema == nil; {
		case missing && !l.noSchema:
			errs = append(errs, field.Required(at, ""))
		case missing && pruned && v.Served:
			errs = append(errs, field.Required(at, "because otherwise all fields are pruned"))
		}
	}
	return errs
}
