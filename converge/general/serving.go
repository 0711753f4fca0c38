package general

import (
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds/apiextensions"
	"github.com/kloop-dev/kloop/kinds/coordination"
	"github.com/kloop-dev/kloop/kinds/rbac"
	"github.com/kloop-dev/kloop/resource"
)

// Whose a kind is follows from rights, whatever its program is called: who may write the status or the finalizers of a kind, by a rule
// that has the group in words, is its controller. Rights to everything make nobody one.

// An account is a service account.
type account struct{ ns, name string }

// accounts are a set of them.
type accounts map[account]bool

// served are the accounts that may write the status of objects, by group, and by the resource or "*".
type served map[string]map[string]accounts

// servers are the accounts that keep objects of a kind, by their rights; none: that is not known.
func servers(w *converge.World, k resource.Kind) accounts {
	seen := converge.Kept[served](w)
	if *seen == nil {
		*seen = served{}
		for _, b := range resource.List(w.Read, rbac.ClusterRoleBindings, "") {
			if role := resource.Get(w.Read, rbac.ClusterRoles, "", b.RoleRef.Name); role != nil {
				seen.note(role.Rules, b.Subjects, "")
			}
		}
		for _, b := range resource.List(w.Read, rbac.RoleBindings, "") {
			if role := resource.Get(w.Read, rbac.Roles, b.Namespace, b.RoleRef.Name); role != nil && b.RoleRef.Kind == "Role" {
				seen.note(role.Rules, b.Subjects, b.Namespace)
			} else if role := resource.Get(w.Read, rbac.ClusterRoles, "", b.RoleRef.Name); role != nil && b.RoleRef.Kind != "Role" {
				seen.note(role.Rules, b.Subjects, b.Namespace)
			}
		}
	}
	i := k.Info()
	if list := (*seen)[i.GVK.Group][i.Plural]; len(list) > 0 || !i.Custom {
		return list
	}
	if !w.HasStatus(k) && w.Sees(apiextensions.CustomResourceDefinitions) && w.Outside() && defined(w) {
		return nil // rights to all of a group are no sign that somebody writes a status that there is not
	}
	return (*seen)[i.GVK.Group]["*"]
}

// defined says that definitions of kinds are seen.
func defined(w *converge.World) bool {
	for range w.Read.Each(apiextensions.CustomResourceDefinitions, "") {
		return true
	}
	return false
}

// note takes in what rules let subjects do.
func (s *served) note(rules []rbacv1.PolicyRule, to []rbacv1.Subject, ns string) {
	for i := range rules {
		r := &rules[i]
		if !slices.ContainsFunc(r.Verbs, func(v string) bool { return v == "update" || v == "patch" || v == "*" }) {
			continue
		}
		for _, group := range r.APIGroups {
			if !strings.Contains(group, ".") {
				continue // of Kubernetes, or all
			}
			for _, what := range r.Resources {
				of, sub, _ := strings.Cut(what, "/")
				if what != "*" && sub != "status" && sub != "finalizers" {
					continue
				}
				s.add(group, of, to, ns)
			}
		}
	}
}

func (s *served) add(group, of string, to []rbacv1.Subject, ns string) {
	for i := range to {
		a := account{to[i].Namespace, to[i].Name}
		if a.ns == "" {
			a.ns = ns
		}
		if to[i].Kind != rbacv1.ServiceAccountKind {
			continue
		}
		if (*s)[group] == nil {
			(*s)[group] = map[string]accounts{}
		}
		if (*s)[group][of] == nil {
			(*s)[group][of] = accounts{}
		}
		(*s)[group][of][a] = true
	}
}

// A program is the workload that keeps objects of a kind, none if obj is nil.
type program struct {
	kind resource.Kind
	obj  resource.Object
}

// programsOf has what was found, by kind: it is asked for with each object of one.
type programsOf map[resource.Kind]program

// byRights is the workload that keeps objects of a kind by the rights of its account; nil: none does, or several do and none of them is
// called a controller.
func byRights(w *converge.World, of resource.Kind) (resource.Kind, resource.Object) {
	known := converge.Kept[programsOf](w)
	if *known == nil {
		*known = programsOf{}
	}
	k, is := (*known)[of]
	if !is {
		k.kind, k.obj = findByRights(w, of)
		(*known)[of] = k
	}
	return k.kind, k.obj
}

func findByRights(w *converge.World, of resource.Kind) (k resource.Kind, found resource.Object) {
	may, several := servers(w, of), 0
	if len(may) == 0 || w.Rules.Pods == nil {
		return nil, nil
	}
	for _, kind := range w.Served(Deployments, StatefulSets, daemonSetsOf) {
		for obj := range w.Read.Each(kind, "") {
			t := w.Workloads().Template(obj)
			if t == nil || !may[account{obj.GetNamespace(), t.Spec.ServiceAccountName}] {
				continue
			}
			if several++; found == nil || controls(obj.GetName()) && !controls(found.GetName()) {
				k, found = kind, obj
			}
		}
	}
	if several > 1 && !controls(found.GetName()) {
		return nil, nil
	}
	return k, found
}

// controls says that a workload calls itself one that controls something.
func controls(name string) bool {
	return strings.Contains(name, "controller") || strings.Contains(name, "operator") || strings.Contains(name, "manager")
}

// downByRights is the workload that keeps objects of a kind, if it does not run.
func downByRights(w *converge.World, of resource.Kind) (k resource.Kind, found resource.Object, off bool) {
	k, found = byRights(w, of)
	if found == nil {
		return nil, nil, false
	}
	want, ready := w.Workloads().Copies(found)
	if want != 0 && (ready != 0 || w.Health(k, found).Converged()) {
		return nil, nil, false
	}
	return k, found, want == 0
}

// unled is the newest lease of those that the pods of a workload held, if nobody has renewed it for long: then nobody leads, though they
// run.
func unled(w *converge.World, k resource.Kind, obj resource.Object) *coordinationv1.Lease {
	var best *coordinationv1.Lease
	if k.Info().GR() != Deployments && k.Info().GR() != StatefulSets {
		return nil
	}
	for _, lease := range resource.List(w.Read, coordination.Leases, obj.GetNamespace()) {
		if !strings.HasPrefix(ptr.Deref(lease.Spec.HolderIdentity, ""), obj.GetName()+"-") || lease.Spec.RenewTime == nil {
			continue
		}
		if best == nil || lease.Spec.RenewTime.After(best.Spec.RenewTime.Time) {
			best = lease
		}
	}
	if best == nil || w.Now.Sub(best.Spec.RenewTime.Time) < max(converge.LeaseLife(best), time.Minute) {
		return nil
	}
	return best
}

// leaderless: the program of the kind runs, and none of its pods leads.
func leaderless(l *converge.Look, f *converge.Finding) bool {
	k, obj := byRights(l.World, l.Kind)
	if obj == nil {
		return false
	}
	lease := unled(l.World, k, obj)
	if lease == nil {
		return false
	}
	name := new(converge.ObjectOf(k, obj)).Short()
	f.Says = fmt.Sprintf("waits for its controller, %s in namespace %s: none of its pods leads, for its lease %s was renewed last %s ago",
		name, obj.GetNamespace(), lease.Name, words.Ago(l.Now.Sub(lease.Spec.RenewTime.Time)))
	f.Waits = converge.On("Object", converge.RefTo(coordination.Leases, lease), "spec.renewTime")
	f.Advice = []string{"see why none takes the lease; its log says so: kubectl logs " + name + " -n " + obj.GetNamespace() +
		" --all-containers --tail=100"}
	return true
}
