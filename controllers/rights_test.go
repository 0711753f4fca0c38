package controllers_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/rbac"
	"github.com/kloop-dev/kloop/client"
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

const noRole = "a loop of kloop's own: upstream's bootstrap roles have none for it; over HTTP it acts as its kubeconfig says"

// unrightful are writes of loops that the roles of their accounts do not allow, each with its reason.
var unrightful = map[string]string{
	"cluster-dns create services/":                        noRole,
	"cluster-dns update services/":                        noRole,
	"cluster-dns create endpointslices.discovery.k8s.io/": noRole,
}

// A rightful client fails the test when a loop writes or gets what the roles of its account do not allow: in process nobody
// would notice, over HTTP it would be refused. What is watched is not looked at: all loops share one copy of the cluster.
type rightful struct {
	client.Client
	t    *testing.T
	loop string
	user *auth.User

	mu   sync.Mutex
	told map[string]bool
}

// rightfully is a client for a loop that acts as an account.
func rightfully(t *testing.T, c client.Client, loop, account string) client.Client {
	name := "system:serviceaccount:kube-system:" + account
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", auth.GroupAuthenticated}
	if account == "kube-controller-manager" || account == "kube-scheduler" {
		name, groups = "system:"+account, []string{auth.GroupAuthenticated}
	}
	return &rightful{Client: c, t: t, loop: loop, user: &auth.User{Name: name, Groups: groups}, told: map[string]bool{}}
}

func (r *rightful) check(ctx context.Context, verb string, k resource.Kind, ns, name, sub string) {
	i := k.Info()
	d, _, err := bootstrapRoles().Authorize(ctx, &auth.Attributes{User: r.user, Verb: verb, Group: i.GVK.Group, Version: i.GVK.Version,
		Resource: i.Plural, Subresource: sub, Namespace: ns, Name: name})
	if _, known := unrightful[fmt.Sprintf("%s %s %s/%s", r.loop, verb, i.GR(), sub)]; d == auth.Allow || known {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	text := fmt.Sprintf("%s: %s may not %s %s/%s: %v", r.loop, r.user.Name, verb, i.GR(), sub, err)
	if !r.told[text] {
		r.told[text] = true
		r.t.Error(text)
	}
}

func (r *rightful) Get(ctx context.Context, k resource.Kind, ns, name string) (resource.Object, error) {
	r.check(ctx, "get", k, ns, name, "")
	return r.Client.Get(ctx, k, ns, name)
}

func (r *rightful) Create(ctx context.Context, k resource.Kind, obj resource.Object) (resource.Object, error) {
	r.check(ctx, "create", k, obj.GetNamespace(), "", "")
	return r.Client.Create(ctx, k, obj)
}

func (r *rightful) Update(ctx context.Context, k resource.Kind, obj resource.Object, sub string) (resource.Object, error) {
	r.check(ctx, "update", k, obj.GetNamespace(), obj.GetName(), sub)
	return r.Client.Update(ctx, k, obj, sub)
}

func (r *rightful) Patch(ctx context.Context, k resource.Kind, ns, name string, p client.Patch) (resource.Object, error) {
	r.check(ctx, "patch", k, ns, name, p.Sub)
	return r.Client.Patch(ctx, k, ns, name, p)
}

func (r *rightful) Delete(ctx context.Context, k resource.Kind, ns, name string, opts *metav1.DeleteOptions) error {
	r.check(ctx, "delete", k, ns, name, "")
	return r.Client.Delete(ctx, k, ns, name, opts)
}

func (r *rightful) Call(ctx context.Context, k resource.Kind, ns, name, sub string, in resource.Object) (resource.Object, error) {
	r.check(ctx, "create", k, ns, name, sub)
	return r.Client.Call(ctx, k, ns, name, sub, in)
}
