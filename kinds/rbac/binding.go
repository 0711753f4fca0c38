package rbac

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// RoleBindings declares the kind.
var RoleBindings = &resource.Def[*rbacv1.RoleBinding]{
	GVK: rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), Plural: "rolebindings", Namespaced: true,
	Name: rule.PathSegment, CreateOnUpdate: true, Quirks: keptUnread,
	Default: func(b *rbacv1.RoleBinding) { defaultBinding(&b.RoleRef, b.Subjects) },
	Gated:   resource.Gated[*rbacv1.RoleBinding]{Validate: resource.Serving(validateRoleBinding)},
	Columns: columns(func(b *rbacv1.RoleBinding) (rbacv1.RoleRef, []rbacv1.Subject) { return b.RoleRef, b.Subjects }),
}

// ClusterRoleBindings declares the kind.
var ClusterRoleBindings = &resource.Def[*rbacv1.ClusterRoleBinding]{
	GVK: rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"), Plural: "clusterrolebindings",
	Name: rule.PathSegment, CreateOnUpdate: true, Quirks: keptUnread,
	Default: func(b *rbacv1.ClusterRoleBinding) { defaultBinding(&b.RoleRef, b.Subjects) },
	Gated:   resource.Gated[*rbacv1.ClusterRoleBinding]{Validate: resource.Serving(validateClusterRoleBinding)},
	Columns: columns(func(b *rbacv1.ClusterRoleBinding) (rbacv1.RoleRef, []rbacv1.Subject) { return b.RoleRef, b.Subjects }),
}

func validateRoleBinding(on *features.Set, b, old *rbacv1.RoleBinding) field.ErrorList {
	errs := append(roleRef(b.RoleRef, "Role", "ClusterRole"), subjects(b.Subjects, true)...)
	if old != nil {
		errs = append(errs, sameRole(on, b.RoleRef, old.RoleRef)...)
	}
	return errs
}

func validateClusterRoleBinding(on *features.Set, b, old *rbacv1.ClusterRoleBinding) field.ErrorList {
	errs := append(roleRef(b.RoleRef, "ClusterRole"), subjects(b.Subjects, false)...)
	if old != nil {
		errs = append(errs, sameRole(on, b.RoleRef, old.RoleRef)...)
	}
	return errs
}

func columns[T resource.Object](of func(T) (rbacv1.RoleRef, []rbacv1.Subject)) []resource.Column[T] {
	named := func(kind string) func(T) any {
		return func(b T) any { _, s := of(b); return names(s, kind) }
	}
	return []resource.Column[T]{
		resource.Col("Role", "string", func(b T) any { r, _ := of(b); return r.Kind + "/" + r.Name }),
		resource.Age[T](),
		resource.Wide("Users", "string", named(rbacv1.UserKind)),
		resource.Wide("Groups", "string", named(rbacv1.GroupKind)),
		resource.Wide("ServiceAccounts", "string", named(rbacv1.ServiceAccountKind)),
	}
}

func names(list []rbacv1.Subject, kind string) string {
	var out []string
	for _, s := range list {
		switch {
		case s.Kind != kind:
		case kind == rbacv1.ServiceAccountKind:
			out = append(out, s.Namespace+"/"+s.Name)
		default:
			out = append(out, s.Name)
		}
	}
	return strings.Join(out, ", ")
}

func defaultBinding(ref *rbacv1.RoleRef, list []rbacv1.Subject) {
	rule.FillZero(&ref.APIGroup, rbacv1.GroupName)
	for i := range list {
		if list[i].Kind == rbacv1.UserKind || list[i].Kind == rbacv1.GroupKind {
			rule.FillZero(&list[i].APIGroup, rbacv1.GroupName)
		}
	}
}

func roleRef(ref rbacv1.RoleRef, kinds ...string) (errs field.ErrorList) {
	path := field.NewPath("roleRef")
	errs = append(errs, rule.Among(ref.APIGroup, path.Child("apiGroup"), rbacv1.GroupName)...)
	errs = append(errs, rule.Listed(ref.Kind, path.Child("kind"), kinds...)...)
	return append(errs, rule.NeededFormat(ref.Name, path.Child("name"), func(s string) []string { return rule.PathSegment(s, false) })...)
}

func sameRole(on *features.Set, ref, old rbacv1.RoleRef) field.ErrorList {
	if ref == old {
		return nil
	}
	says := validation.FieldImmutableErrorMsg
	if !on.AtLeast(37) {
		says = "cannot change roleRef"
	}
	return field.ErrorList{field.Invalid(field.NewPath("roleRef"), rule.Internal(ref), says)}
}

func subjects(list []rbacv1.Subject, namespaced bool) (errs field.ErrorList) {
	for i, s := range list {
		errs = append(errs, subject(s, namespaced, field.NewPath("subjects").Index(i))...)
	}
	return errs
}

func subject(s rbacv1.Subject, namespaced bool, path *field.Path) (errs field.ErrorList) {
	errs = append(errs, rule.Needed(s.Name, path.Child("name"))...)
	switch s.Kind {
	case rbacv1.ServiceAccountKind:
		if s.Name != "" {
			errs = append(errs, rule.Says(validation.ValidateServiceAccountName(s.Name, false), s.Name, path.Child("name"))...)
		}
		errs = append(errs, rule.Among(s.APIGroup, path.Child("apiGroup"), "")...)
		if !namespaced {
			errs = append(errs, rule.Needed(s.Namespace, path.Child("namespace"))...)
		}
	case rbacv1.UserKind, rbacv1.GroupKind:
		errs = append(errs, rule.Among(s.APIGroup, path.Child("apiGroup"), rbacv1.GroupName)...)
	default:
		errs = append(errs, field.NotSupported(path.Child("kind"), s.Kind,
			[]string{rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind}))
	}
	return errs
}
