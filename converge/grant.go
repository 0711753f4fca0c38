package converge

import (
	"cmp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds/rbac"
	"github.com/kloop-dev/kloop/resource"
)

// refusedRight finds which service account may not do what, in the API server's words, which everybody repeats.
var refusedRight = pattern.New(`[Uu]ser \\?"?system:serviceaccount:([a-z0-9-]+):([a-z0-9.-]+)\\?"? cannot (\w+) resource ` +
	`\\?"([a-z0-9./-]+)\\?" in API group \\?"([a-z0-9.-]*)\\?"(?: in the namespace \\?"([a-z0-9-]+)\\?"| at the cluster scope)`)

// A Right is one that a service account lacks.
type Right struct{ Space, Account, Verb, Resource, Group, In string }

// LackedRight reads the right that a service account lacks out of a refusal; false: the words are of none.
func LackedRight(text string) (r Right, ok bool) {
	m := refusedRight.FindStringSubmatch(text)
	if m == nil {
		return r, false
	}
	return Right{m[1], m[2], m[3], m[4], m[5], m[6]}, true
}

// Grant is advice with the commands that give an account the right: in the one namespace where it wants it, if it wants it in one.
func (r Right) Grant() string {
	role, binding, scope := "clusterrole", "clusterrolebinding", ""
	if r.In != "" {
		role, binding, scope = "role", "rolebinding", " -n "+r.In
	}
	of, verbs := strings.TrimSuffix(r.Resource+"."+r.Group, "."), r.Verb
	if kind, sub, is := strings.Cut(r.Resource, "/"); is {
		of = strings.TrimSuffix(kind+"."+r.Group, ".") + "/" + sub
	}
	if verbs == "list" || verbs == "watch" {
		verbs = "get,list,watch"
	}
	if r.Resource == "leases" { // who leads by one needs all of these, one after the other
		verbs = "get,create,update"
	}
	name := r.Account + "-" + strings.NewReplacer("/", "-", ".", "-").Replace(r.Resource)
	return "give that service account the right, if it is to have it: kubectl create " + role + " " + name + " --verb=" + verbs +
		" --resource=" + of + scope + " && kubectl create " + binding + " " + name + " --" + role + "=" + name + " --serviceaccount=" +
		r.Space + ":" + r.Account + scope
}

// serves says that the server has the kind that a right is about: kubectl makes no role for another one.
func (l *Look) serves(r *Right) bool {
	plural, _, _ := strings.Cut(r.Resource, "/")
	_, ok := l.Kinds.GR(schema.GroupResource{Group: r.Group, Resource: plural})
	return ok
}

// Holder is another account of the same namespace that has the right there, by the name of the binding that gives it; "": none is seen.
func (r Right) Holder(w *World) (account, by string) {
	if r.In != r.Space {
		return "", ""
	}
	for _, b := range resource.List(w.Read, rbac.RoleBindings, r.In) {
		if !slices.ContainsFunc(rulesOf(w, r.In, b.RoleRef), r.in) {
			continue
		}
		for _, s := range b.Subjects {
			if s.Kind == rbacv1.ServiceAccountKind && s.Name != r.Account && cmp.Or(s.Namespace, r.In) == r.Space {
				return s.Name, b.Name
			}
		}
	}
	return "", ""
}

// in says that a rule gives the right.
func (r Right) in(rule rbacv1.PolicyRule) bool {
	has := func(list []string, one string) bool { return slices.Contains(list, one) || slices.Contains(list, "*") }
	return len(rule.ResourceNames) == 0 && has(rule.Verbs, r.Verb) && has(rule.APIGroups, r.Group) && has(rule.Resources, r.Resource)
}
