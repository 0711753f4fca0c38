package rbac

import (
	"fmt"
	"sync/atomic"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/resource"
)

// A policy is compiled from all roles and bindings of one state. It never changes.
type policy struct {
	objs    [4][]resource.Object // what it was compiled from
	checked [4]atomic.Int64      // newest revisions at which the kinds were seen to be as in objs
	version [4]any               // the readers' own marks, if they give any

	cluster subjects
	spaces  map[string]*subjects // by namespace
}

// subjects finds what was granted to whom.
type subjects struct{ users, groups map[string][]*grant }

// A grant holds the rules that one binding gives to one subject.
type grant struct {
	rules []rbacv1.PolicyRule
	err   error // the role does not exist
	from  *source
	to    rbacv1.Subject // with its namespace filled in

	reason atomic.Pointer[string] // made when first asked for
}

// A source is a binding.
type source struct {
	kind, name string // RoleBinding, "name/namespace"
	ref        rbacv1.RoleRef
}

// why says on what grounds the grant allows something.
func (g *grant) why() string {
	if s := g.reason.Load(); s != nil {
		return *s
	}
	name := g.to.Name
	if g.to.Kind == rbacv1.ServiceAccountKind {
		name += "/" + g.to.Namespace
	}
	s := fmt.Sprintf("RBAC: allowed by %s %q of %s %q to %s %q", g.from.kind, g.from.name, g.from.ref.Kind, g.from.ref.Name, g.to.Kind, name)
	g.reason.Store(&s)
	return s
}

// A Reader may implement versioned to tell cheaply whether a kind has changed: the answers of two readers are
// equal (==) exactly when the kind's objects are the same.
type versioned interface {
	Version(k resource.Kind) any
}

// fresh tells whether the policy is that of the reader's state. Revisions rise with every write of any kind,
// so when one has moved the objects are compared: by address, as readers share them.
func (p *policy) fresh(r resource.Reader, kinds sources) bool {
	v, marks := r.(versioned)
	for i, k := range kinds {
		rev := r.Revision(k)
		if p.checked[i].Load() == rev {
			continue
		}
		if marks && p.version[i] != v.Version(k) || !marks && !p.same(i, r, k) {
			return false
		}
		p.checked[i].Store(rev)
	}
	return true
}

func (p *policy) same(i int, r resource.Reader, k resource.Kind) bool {
	n := 0
	for o := range r.Each(k, "") {
		if n >= len(p.objs[i]) || p.objs[i][n] != o {
			return false
		}
		n++
	}
	return n == len(p.objs[i])
}

func compile(r resource.Reader, kinds sources) *policy {
	p := &policy{cluster: newSubjects(), spaces: map[string]*subjects{}}
	for i, k := range kinds {
		p.checked[i].Store(r.Revision(k))
		if v, ok := r.(versioned); ok {
			p.version[i] = v.Version(k)
		}
		for o := range r.Each(k, "") {
			p.objs[i] = append(p.objs[i], o)
		}
	}
	known := map[string][]rbacv1.PolicyRule{}
	for _, o := range p.objs[roles] {
		known[o.GetNamespace()+"/"+o.GetName()] = o.(*rbacv1.Role).Rules
	}
	for _, o := range p.objs[clusterRoles] {
		known[o.GetName()] = o.(*rbacv1.ClusterRole).Rules
	}
	for _, o := range p.objs[roleBindings] {
		b := o.(*rbacv1.RoleBinding)
		s := p.spaces[b.Namespace]
		if s == nil {
			n := newSubjects()
			s = &n
			p.spaces[b.Namespace] = s
		}
		s.add(&source{"RoleBinding", b.Name + "/" + b.Namespace, b.RoleRef}, b.Subjects, b.Namespace, known)
	}
	for _, o := range p.objs[clusterRoleBindings] {
		b := o.(*rbacv1.ClusterRoleBinding)
		p.cluster.add(&source{"ClusterRoleBinding", b.Name, b.RoleRef}, b.Subjects, "", known)
	}
	return p
}

func newSubjects() subjects {
	return subjects{users: map[string][]*grant{}, groups: map[string][]*grant{}}
}

// add enters one binding.
func (s *subjects) add(from *source, to []rbacv1.Subject, ns string, known map[string][]rbacv1.PolicyRule) {
	key, kind := from.ref.Name, "clusterrole"
	if from.ref.Kind == "Role" {
		key, kind = ns+"/"+from.ref.Name, "role"
	}
	rules, ok := known[key]
	var err error
	if !ok {
		err = fmt.Errorf("%s.%s %q not found", kind, rbacv1.GroupName, from.ref.Name)
	}
	for _, sub := range to {
		if sub.Namespace == "" {
			sub.Namespace = ns
		}
		g := &grant{rules: rules, err: err, from: from, to: sub}
		switch {
		case sub.Kind == rbacv1.UserKind:
			s.users[sub.Name] = append(s.users[sub.Name], g)
		case sub.Kind == rbacv1.GroupKind:
			s.groups[sub.Name] = append(s.groups[sub.Name], g)
		case sub.Kind == rbacv1.ServiceAccountKind && sub.Namespace != "":
			user := auth.ServiceAccountName(sub.Namespace, sub.Name)
			s.users[user] = append(s.users[user], g)
		}
	}
}

// visit calls f with what holds for the user, cluster-wide grants first, until f returns false.
func (p *policy) visit(u *auth.User, ns string, f func(*grant) bool) {
	if p.cluster.visit(u, f) && ns != "" {
		if s := p.spaces[ns]; s != nil {
			s.visit(u, f)
		}
	}
}

func (s *subjects) visit(u *auth.User, f func(*grant) bool) bool {
	for _, g := range s.users[u.Name] {
		if !f(g) {
			return false
		}
	}
	for _, group := range u.Groups {
		for _, g := range s.groups[group] {
			if !f(g) {
				return false
			}
		}
	}
	return true
}
