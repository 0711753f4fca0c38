// Package rbac decides by roles and bindings who may do what, resolves the rules that hold for a user, keeps
// writers of roles from granting more than they hold, and knows upstream's default policy.
//
// Roles and bindings are compiled into tables by subject. The tables are built anew when one of the four kinds
// has changed, not at every write: a decision looks up the user and its groups and matches a few rules.
package rbac

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/kloop-dev/kloop/auth"
	kinds "github.com/kloop-dev/kloop/kinds/rbac"
	"github.com/kloop-dev/kloop/resource"
)

// sources are the four kinds that the policy is made of.
type sources [4]resource.Kind

// The places of the kinds in sources.
const (
	roles = iota
	roleBindings
	clusterRoles
	clusterRoleBindings
)

// Masters allows everything to members of system:masters, whatever the roles say: the way back in when they
// are wrong. It stands first in the chain.
type Masters struct{}

// Authorize implements auth.Authorizer.
func (Masters) Authorize(_ context.Context, a *auth.Attributes) (auth.Decision, string, error) {
	if a.User.In(auth.GroupMasters) {
		return auth.Allow, "", nil
	}
	return auth.NoOpinion, "", nil
}

// An Authorizer decides by the roles and bindings of the newest state. Safe for concurrent use.
type Authorizer struct {
	read  func() resource.Reader
	kinds sources

	build sync.Mutex
	last  atomic.Pointer[policy]
}

// New returns an authorizer; read gives the newest state.
func New(read func() resource.Reader) *Authorizer {
	return &Authorizer{read: read, kinds: sources{kinds.Roles, kinds.RoleBindings, kinds.ClusterRoles, kinds.ClusterRoleBindings}}
}

// Authorize implements auth.Authorizer. It allows or has no opinion: roles never deny.
func (z *Authorizer) Authorize(_ context.Context, a *auth.Attributes) (auth.Decision, string, error) {
	if a.User == nil {
		return auth.NoOpinion, "", nil
	}
	var missing []error
	reason, ok := "", false
	z.policy().visit(a.User, a.Namespace, func(g *grant) bool {
		if g.err != nil {
			missing = append(missing, g.err)
		}
		for i := range g.rules {
			if Allows(&g.rules[i], a) {
				reason, ok = g.why(), true
				return false
			}
		}
		return true
	})
	if ok {
		return auth.Allow, reason, nil
	}
	if len(missing) > 0 {
		reason = "RBAC: " + errors.Join(missing...).Error()
	}
	return auth.NoOpinion, reason, nil
}

// Rules returns the rules that hold for the user in the namespace, and cluster-wide when that is empty. err
// tells of bindings to roles that do not exist; the rules are good all the same.
func (z *Authorizer) Rules(u *auth.User, namespace string) (rules []rbacv1.PolicyRule, err error) {
	var missing []error
	z.policy().visit(u, namespace, func(g *grant) bool {
		if g.err != nil {
			missing = append(missing, g.err)
		}
		rules = append(rules, g.rules...)
		return true
	})
	return rules, errors.Join(missing...)
}

// policy returns the compiled policy of the newest state.
func (z *Authorizer) policy() *policy {
	r := z.read()
	if p := z.last.Load(); p != nil && p.fresh(r, z.kinds) {
		return p
	}
	z.build.Lock()
	defer z.build.Unlock()
	r = z.read()
	if p := z.last.Load(); p != nil && p.fresh(r, z.kinds) {
		return p
	}
	p := compile(r, z.kinds)
	z.last.Store(p)
	return p
}
