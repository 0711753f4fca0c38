package controllers

import (
	"context"
	"fmt"
	"sync"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/rbac"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// bootstrapRoles decides by the roles and bindings that every cluster has from the start.
var bootstrapRoles = sync.OnceValue(func() *rbac.Authorizer {
	set := kinds.NewSet()
	v, byKind := view.New(set), map[resource.Kind][]resource.Object{}
	for _, obj := range rbac.Bootstrap(set.Features()) {
		k, ok := set.Kind(obj.GetObjectKind().GroupVersionKind())
		if !ok {
			panic(fmt.Sprintf("%T is of no kind", obj))
		}
		byKind[k] = append(byKind[k], obj)
	}
	for k, list := range byKind {
		v.Replace(k, 1, list)
	}
	return rbac.New(func() resource.Reader { return v.Snapshot() })
})

// UserOf is whom a loop acts as by its account.
func UserOf(account string) *auth.User {
	if account == "kube-controller-manager" || account == "kube-scheduler" {
		return &auth.User{Name: "system:" + account, Groups: []string{auth.GroupAuthenticated}}
	}
	return &auth.User{Name: "system:serviceaccount:kube-system:" + account,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", auth.GroupAuthenticated}}
}

// Allowed says whether the bootstrap roles let a user do something.
func Allowed(ctx context.Context, u *auth.User, verb string, i *resource.Info, ns, name, sub string) bool {
	d, _, _ := bootstrapRoles().Authorize(ctx, &auth.Attributes{User: u, Verb: verb, Group: i.GVK.Group, Version: i.GVK.Version,
		Resource: i.Plural, Subresource: sub, Namespace: ns, Name: name})
	return d == auth.Allow
}
