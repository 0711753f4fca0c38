package rbac

import (
	"strings"

	v1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// RoleBindings declares the kind.
var RoleBindings = &resource.Def[*v1.RoleBinding]{
	GVK: v1.SchemeGroupVersion.WithKind("RoleBinding"), Plural: "rolebindings", Namespaced: true,
	Name: rule.PathSegment, CreateOnUpdate: true,
	Default: func(b *v1.RoleBinding) { defaultBinding(&b.RoleRef, b.Subjects) },
	Validate: func(b, old *v1.RoleBinding) field.ErrorList {
		errs := roleRef(b.RoleRef, "Role", "ClusterRole")
		if old != nil {
			errs = append(errs, sameRole(b.RoleRef, old.RoleRef)...)
		}
		return append(errs, subjects(b.Subjects, true)...)
	},
	Columns: columns(func(b *v1.RoleBinding) (v1.RoleRef, []v1.Subject) { return b.RoleRef, b.Subjects }),
}

// ClusterRoleBindings declares the kind.
var ClusterRoleBindings = &resource.Def[*v1.ClusterRoleBinding]{
	GVK: v1.SchemeGroupVersion.WithKind("ClusterRoleBinding"), Plural: "clusterrolebindings",
	Name: rule.PathSegment, CreateOnUpdate: true,
	Default: func(b *v1.ClusterRoleBinding) { defaultBinding(&b.RoleRef, b.Subjects) },
	Validate: func(b, old *v1.ClusterRoleBinding) field.ErrorList {
		errs := roleRef(b.RoleRef, "ClusterRole")
		if old != nil {
			errs = append(errs, sameRole(b.RoleRef, old.RoleRef)...)
		}
		return append(errs, subjects(b.Subjects, false)...)
	},
	Columns: columns(func(b *v1.ClusterRoleBinding) (v1.RoleRef, []v1.Subject) { return b.RoleRef, b.Subjects }),
}

func columns[T resource.Object](of func(T) (v1.RoleRef, []v1.Subject)) []resource.Column[T] {
	named := func(kind string) func(T) any {
		return func(b T) any { _, s := of(b); return names(s, kind) }
	}
	return []resource.Column[T]{
		resource.Col("Role", "string", func(b T) any { r, _ := of(b); return r.Kind + "/" + r.Name }),
		resource.Age[T](),
		resource.Wide("Users", "string", named(v1.UserKind)),
		resource.Wide("Groups", "string", named(v1.GroupKind)),
		resource.Wide("ServiceAccounts", "string", named(v1.ServiceAccountKind)),
	}
}

func names(list []v1.Subject, kind string) string {
	var out []string
	for _, s := range list {
		switch {
		case s.Kind != kind:
		case kind == v1.ServiceAccountKind:
			out = append(out, s.Namespace+"/"+s.Name)
		default:
			out = append(out, s.Name)
		}
	}
	return strings.Join(out, ", ")
}

func defaultBinding(ref *v1.RoleRef, list []v1.Subject) {
	rule.FillZero(&ref.APIGroup, v1.GroupName)
	for i := range list {
		if list[i].Kind == v1.UserKind || list[i].Kind == v1.GroupKind {
			rule.FillZero(&list[i].APIGroup, v1.GroupName)
		}
	}
}

func roleRef(ref v1.RoleRef, kinds ...string) (errs field.ErrorList) {
	path := field.NewPath("roleRef")
	errs = append(errs, rule.Among(ref.APIGroup, path.Child("apiGroup"), v1.GroupName)...)
	errs = append(errs, rule.Among(ref.Kind, path.Child("kind"), kinds...)...)
	return append(errs, rule.NeededFormat(ref.Name, path.Child("name"), func(s string) []string { return rule.PathSegment(s, false) })...)
}

func sameRole(ref, old v1.RoleRef) field.ErrorList {
	if ref == old {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("roleRef"), ref, "cannot change roleRef")}
}

func subjects(list []v1.Subject, namespaced bool) (errs field.ErrorList) {
	for i, s := range list {
		errs = append(errs, subject(s, namespaced, field.NewPath("subjects").Index(i))...)
	}
	return errs
}

func subject(s v1.Subject, namespaced bool, path *field.Path) (errs field.ErrorList) {
	errs = append(errs, rule.Needed(s.Name, path.Child("name"))...)
	switch s.Kind {
	case v1.ServiceAccountKind:
		if s.Name != "" {
			errs = append(errs, rule.Says(validation.ValidateServiceAccountName(s.Name, false), s.Name, path.Child("name"))...)
		}
		errs = append(errs, rule.Among(s.APIGroup, path.Child("apiGroup"), "")...)
		if !namespaced {
			errs = append(errs, rule.Needed(s.Namespace, path.Child("namespace"))...)
		}
	case v1.UserKind, v1.GroupKind:
		errs = append(errs, rule.Among(s.APIGroup, path.Child("apiGroup"), v1.GroupName)...)
	default:
		errs = append(errs, field.NotSupported(path.Child("kind"), s.Kind,
			[]string{v1.GroupKind, v1.ServiceAccountKind, v1.UserKind}))
	}
	return errs
}
