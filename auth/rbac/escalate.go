package rbac

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/resource"
)

// CheckWrite refuses writes of roles and bindings by which the user would gain, or give, permissions that it
// does not hold itself. old is nil for a create. all is the whole chain of authorizers, which is asked for the
// verbs escalate and bind. Objects of other kinds pass. Errors are those of the API.
func (z *Authorizer) CheckWrite(ctx context.Context, all auth.Authorizer, u *auth.User, obj, old resource.Object) error {
	if u.In(auth.GroupMasters) {
		return nil
	}
	switch o := obj.(type) {
	case *rbacv1.Role:
		var was []rbacv1.PolicyRule
		if r, ok := old.(*rbacv1.Role); ok {
			was = r.Rules
		}
		return z.checkRole(ctx, all, u, o.Namespace, o.Name, o.Rules, was, old == nil)
	case *rbacv1.ClusterRole:
		return z.checkClusterRole(ctx, all, u, o, old)
	case *rbacv1.RoleBinding:
		if r, ok := old.(*rbacv1.RoleBinding); ok && sameBinding(o.RoleRef, r.RoleRef, o.Subjects, r.Subjects) {
			return nil
		}
		return z.checkBinding(ctx, all, u, o.Namespace, o.Name, o.RoleRef)
	case *rbacv1.ClusterRoleBinding:
		if r, ok := old.(*rbacv1.ClusterRoleBinding); ok && sameBinding(o.RoleRef, r.RoleRef, o.Subjects, r.Subjects) {
			return nil
		}
		return z.checkBinding(ctx, all, u, "", o.Name, o.RoleRef)
	}
	return nil
}

func sameBinding(a, b rbacv1.RoleRef, x, y []rbacv1.Subject) bool {
	return a == b && slices.Equal(x, y)
}

func (z *Authorizer) checkClusterRole(ctx context.Context, all auth.Authorizer, u *auth.User, o *rbacv1.ClusterRole, old resource.Object) error {
	was, _ := old.(*rbacv1.ClusterRole)
	var before []rbacv1.PolicyRule
	var gathered *rbacv1.AggregationRule
	if was != nil {
		before, gathered = was.Rules, was.AggregationRule
	}
	if err := z.checkRole(ctx, all, u, "", o.Name, o.Rules, before, was == nil); err != nil {
		return err
	}
	// To aggregate is to grant whatever anybody labels: only who may do everything may.
	if o.AggregationRule == nil || reflect.DeepEqual(o.AggregationRule, gathered) ||
		z.may(ctx, all, u, "escalate", "clusterroles", "", o.Name) {
		return nil
	}
	everything := []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		{NonResourceURLs: []string{"*"}, Verbs: []string{"*"}}}
	if z.confirm(u, "", everything) != nil {
		return forbid("clusterroles", o.Name, errors.New("must have cluster-admin privileges to use an aggregationRule"))
	}
	return nil
}

func (z *Authorizer) checkRole(ctx context.Context, all auth.Authorizer, u *auth.User, ns, name string, rules, was []rbacv1.PolicyRule, fresh bool) error {
	kind := "clusterroles"
	if ns != "" {
		kind = "roles"
	}
	if !fresh && reflect.DeepEqual(rules, was) || z.may(ctx, all, u, "escalate", kind, ns, name) {
		return nil
	}
	if err := z.confirm(u, ns, rules); err != nil {
		return forbid(kind, name, err)
	}
	return nil
}

func (z *Authorizer) checkBinding(ctx context.Context, all auth.Authorizer, u *auth.User, ns, name string, ref rbacv1.RoleRef) error {
	kind, target := "clusterrolebindings", "clusterroles"
	if ns != "" {
		kind = "rolebindings"
	}
	if ref.Kind == "Role" {
		target = "roles"
	}
	if z.may(ctx, all, u, "bind", target, ns, ref.Name) {
		return nil
	}
	rules, ok := z.roleRules(ns, ref)
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Group: rbacv1.GroupName, Resource: kind}, ref.Name)
	}
	if err := z.confirm(u, ns, rules); err != nil {
		return forbid(kind, name, err)
	}
	return nil
}

func (z *Authorizer) roleRules(ns string, ref rbacv1.RoleRef) ([]rbacv1.PolicyRule, bool) {
	r := z.read()
	if ref.Kind == "Role" {
		o, ok := r.Lookup(z.kinds[roles], ns, ref.Name).(*rbacv1.Role)
		if !ok {
			return nil, false
		}
		return o.Rules, true
	}
	o, ok := r.Lookup(z.kinds[clusterRoles], "", ref.Name).(*rbacv1.ClusterRole)
	if !ok {
		return nil, false
	}
	return o.Rules, true
}

func (z *Authorizer) may(ctx context.Context, all auth.Authorizer, u *auth.User, verb, kind, ns, name string) bool {
	d, _, err := all.Authorize(ctx, &auth.Attributes{User: u, Verb: verb, Group: rbacv1.GroupName, Version: "v1",
		Resource: kind, Namespace: ns, Name: name})
	return err == nil && d == auth.Allow
}

// confirm tells whether the user holds the rules in the namespace.
func (z *Authorizer) confirm(u *auth.User, ns string, rules []rbacv1.PolicyRule) error {
	held, unresolved := z.Rules(u, ns)
	ok, missing := covers(held, rules)
	if ok {
		return nil
	}
	var lines []string
	for _, r := range compact(missing) {
		lines = append(lines, text(r))
	}
	slices.Sort(lines)
	msg := fmt.Sprintf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s",
		u.Name, u.Groups, strings.Join(slices.Compact(lines), "\n"))
	if unresolved != nil {
		msg += fmt.Sprintf("; resolution errors: %v", unresolved)
	}
	return errors.New(msg)
}

func forbid(kind, name string, err error) error {
	return apierrors.NewForbidden(schema.GroupResource{Group: rbacv1.GroupName, Resource: kind}, name, err)
}
