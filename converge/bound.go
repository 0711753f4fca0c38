package converge

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/kloop-dev/kloop/kinds/rbac"
	"github.com/kloop-dev/kloop/resource"
)

// misbound tells of the binding that gives rights to a service account of that name in another namespace, where the words of a finding say
// that one lacks rights: a copied manifest has the namespace that it was written for.
func (l *Look) misbound(f *Finding) {
	m := barred.FindStringSubmatch(f.Says)
	if m == nil {
		return
	}
	ns, account := m[2], m[1][strings.LastIndexByte(m[1], ':')+1:]
	tell := func(k resource.Kind, obj resource.Object, to []rbacv1.Subject) (found bool) {
		other := ""
		for _, s := range to {
			if s.Kind != rbacv1.ServiceAccountKind || s.Name != account {
				continue
			}
			if s.Namespace == ns {
				return false
			}
			other = s.Namespace
		}
		if other == "" {
			return false
		}
		name := ObjectOf(k, obj)
		f.Says += "; " + name.Short() + " gives rights to the account of that name in namespace " + other
		edit := "if this one is meant, name its namespace " + ns + " there: kubectl edit " + k.Info().Singular + " " + obj.GetName()
		if obj.GetNamespace() != "" {
			edit += " -n " + obj.GetNamespace()
		}
		f.Advice = append([]string{edit}, f.Advice...)
		return true
	}
	for _, b := range resource.List(l.Read, rbac.RoleBindings, ns) {
		if tell(rbac.RoleBindings, b, b.Subjects) {
			return
		}
	}
	for _, b := range resource.List(l.Read, rbac.ClusterRoleBindings, "") {
		if tell(rbac.ClusterRoleBindings, b, b.Subjects) {
			return
		}
	}
}
