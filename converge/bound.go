package converge

import (
	"cmp"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/kloop-dev/kloop/kinds/rbac"
	"github.com/kloop-dev/kloop/resource"
)

// misbound tells of the binding that gives the right which a finding says that a service account lacks to one of that name in another
// namespace, as a copied manifest has the namespace that it was written for, or to one of a name like it. It returns the advice to have
// this one among its subjects; "": there is none.
func (l *Look) misbound(f *Finding, r *Right) string {
	if r.In != "" {
		for _, b := range resource.List(l.Read, rbac.RoleBindings, r.In) {
			if a := l.subjected(f, r, RefTo(rbac.RoleBindings, b), b.RoleRef, b.Subjects); a != "" {
				return a
			}
		}
	}
	for _, b := range resource.List(l.Read, rbac.ClusterRoleBindings, "") {
		if a := l.subjected(f, r, RefTo(rbac.ClusterRoleBindings, b), b.RoleRef, b.Subjects); a != "" {
			return a
		}
	}
	return ""
}

func (l *Look) subjected(f *Finding, r *Right, b Ref, ref rbacv1.RoleRef, to []rbacv1.Subject) string {
	other := rbacv1.Subject{}
	for _, s := range to {
		switch in := cmp.Or(s.Namespace, b.NS); {
		case s.Kind != rbacv1.ServiceAccountKind:
		case in == r.Space && s.Name == r.Account:
			return ""
		case in == r.Space && Likest(r.Account, []string{s.Name}) != "", in != r.Space && s.Name == r.Account:
			other = s
		}
	}
	if other.Name == "" || !slices.ContainsFunc(rulesOf(l.World, b.NS, ref), r.in) {
		return ""
	}
	o := Named(b.Kind, b.NS, b.Name)
	says := "; " + o.Short() + " gives that right to the account of that name in namespace " + other.Namespace
	if other.Name != r.Account {
		says = "; " + o.Short() + " gives that right to the account " + other.Name
	}
	f.Says += says
	return "if this one is meant, have it among its subjects: " + Patched(b, Add("/subjects/-", rbacv1.Subject{Kind: other.Kind,
		Name: r.Account, Namespace: r.Space}))
}

// rulesOf are those of the role that a binding in a namespace gives.
func rulesOf(w *World, ns string, ref rbacv1.RoleRef) []rbacv1.PolicyRule {
	if role := resource.Get(w.Read, rbac.Roles, ns, ref.Name); role != nil && ref.Kind == "Role" {
		return role.Rules
	} else if role := resource.Get(w.Read, rbac.ClusterRoles, "", ref.Name); role != nil && ref.Kind == "ClusterRole" {
		return role.Rules
	}
	return nil
}
