package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/controllers"
	"github.com/kloop-dev/kloop/resource"
)

const noRole = "a loop of kloop's own: upstream's bootstrap roles have none for it; over HTTP it acts as its kubeconfig says"

// unrightful are writes of loops that the roles of their accounts do not allow, each with its reason.
var unrightful = map[string]string{
	"cluster-dns create services/":                        noRole,
	"cluster-dns update services/":                        noRole,
	"cluster-dns create endpointslices.discovery.k8s.io/": noRole,
	"load-balancer update leases.coordination.k8s.io/":    noRole,
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
	return &rightful{Client: c, t: t, loop: loop, user: controllers.UserOf(account), told: map[string]bool{}}
}

func (r *rightful) check(ctx context.Context, verb string, k resource.Kind, ns, name, sub string) {
	i := k.Info()
	_, known := unrightful[fmt.Sprintf("%s %s %s/%s", r.loop, verb, i.GR(), sub)]
	if known || controllers.Allowed(ctx, r.user, verb, i, ns, name, sub) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	text := fmt.Sprintf("%s: %s may not %s %s/%s", r.loop, r.user.Name, verb, i.GR(), sub)
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
	if c, ok := r.Client.(*cluster); ok {
		c.creates.Add(1)
	}
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
	if c, ok := r.Client.(*cluster); ok && strings.HasPrefix(name, "kept") {
		c.refusals.Add(1)
		return apierrors.NewForbidden(k.Info().GR(), name, errors.New("somebody's webhook keeps it"))
	}
	return r.Client.Delete(ctx, k, ns, name, opts)
}

func (r *rightful) Call(ctx context.Context, k resource.Kind, ns, name, sub string, in resource.Object) (resource.Object, error) {
	r.check(ctx, "create", k, ns, name, sub)
	return r.Client.Call(ctx, k, ns, name, sub, in)
}
