package rbac

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/resource"
)

// CheckWrite refuses writes of roles and bindings by which the user would gain, or give, permissions that it
// does not hold itself: any write but those of the garbage collector's fields, as upstream. old is nil for a create. name is that
// of the URL, empty when a create names none there: who may escalate some roles by name may not create them. all is the whole
// chain of authorizers, which is asked for the verbs escalate and bind. Objects of other kinds pass. Errors are those of the API.
func (z *Authorizer) CheckWrite(ctx context.Context, all auth.Authorizer, u *auth.User, name string, obj, old resource.Object) error {
	if u.In(auth.GroupMasters) || old != nil && forCollector(obj, old) {
		return nil
	}
	switch o := obj.(type) {
	case *rbacv1.Role:
		if z.may(ctx, all, u, "escalate", "roles", o.Namespace, name) {
			return nil
		}
		return z.checkRole(u, o.Namespace, o.Name, o.Rules, false)
	case *rbacv1.ClusterRole:
		if z.may(ctx, all, u, "escalate", "clusterroles", "", name) {
			return nil
		}
		was, _ := old.(*rbacv1.ClusterRole)
		return z.checkRole(u, "", o.Name, o.Rules, gathers(o) || gathers(was))
	case *rbacv1.RoleBinding:
		return z.checkBinding(ctx, all, u, o.Namespace, o.Name, o.RoleRef)
	case *rbacv1.ClusterRoleBinding:
		return z.checkBinding(ctx, all, u, "", o.Name, o.RoleRef)
	}
	return nil
}

// forCollector says that nothing changes but what the garbage collector looks after.
func forCollector(obj, old resource.Object) bool {
	is := resource.Clone(obj)
	is.SetOwnerReferences(old.GetOwnerReferences())
	is.SetFinalizers(old.GetFinalizers())
	is.SetManagedFields(old.GetManagedFields())
	return equality.Semantic.DeepEqual(is, old)
}

func gathers(r *rbacv1.ClusterRole) bool {
	return r != nil && r.AggregationRule != nil && len(r.AggregationRule.ClusterRoleSelectors) > 0
}

// everything is the rule that allows all that a role may gather.
var everything = []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
	{NonResourceURLs: []string{"*"}, Verbs: []string{"*"}}}

// checkRole judges a role. One that gathers rules grants whatever anybody labels: only who may do everything may write it.
func (z *Authorizer) checkRole(u *auth.User, ns, name string, rules []rbacv1.PolicyRule, gathers bool) error {
	kind := "clusterroles"
	if ns != "" {
		kind = "roles"
	}
	if err := z.confirm(u, ns, rules); err != nil {
		return forbid(kind, name, err)
	}
	if gathers && z.confirm(u, ns, everything) != nil {
		return forbid(kind, name, errors.New("must have cluster-admin privileges to use the aggregationRule"))
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
	if ref.Kind != "Role" && ref.Kind != "ClusterRole" { // validation comes later
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure,
			Code: http.StatusInternalServerError, Message: fmt.Sprintf("unsupported role reference kind: %q", ref.Kind)}}
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
	d, _, err := all.Authorize(ctx, &auth.Attributes{User: u, Verb: verb, Group: rbacv1.GroupName, Version: "*",
		Resource: kind, Namespace: ns, Name: name})
	return err == nil && d == auth.Allow
}

// confirm tells whether the user holds the rules in the namespace.
func (z *Authorizer) confirm(u *auth.User, ns string, rules []rbacv1.PolicyRule) error {
	held, unresolved := z.Rules(u, ns)
	ok, missing, err := covers(held, rules)
	switch {
	case ok:
		return nil
	case err != nil:
		return err
	}
	var lines []string
	for _, r := range compact(missing) {
		lines = append(lines, text(r))
	}
	slices.Sort(lines)
	msg := fmt.Sprintf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s",
		u.Name, u.Groups, strings.Join(slices.Compact(lines), "\n"))
	if len(missing) == maxMissing {
		msg += "\nand maybe more"
	}
	if unresolved != nil {
		msg += fmt.Sprintf("; resolution errors: %v", unresolved)
	}
	return errors.New(msg)
}

func forbid(kind, name string, err error) error {
	return apierrors.NewForbidden(schema.GroupResource{Group: rbacv1.GroupName, Resource: kind}, name, err)
}
