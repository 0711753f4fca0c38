//go:build !reader

package client

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/view"
)

// Local is a Client in the server's own process: its reads are the server's own objects, its writes plain
// calls. It is trusted: no authorizer is asked.
type Local struct {
	Ops     server.Operations
	View    *view.View
	Set     *resource.Set
	User    *auth.User
	Manager string // field manager of its writes
}

var _ Client = (*Local)(nil)

// As returns a client that acts for another user.
func (l *Local) As(user *auth.User, manager string) *Local {
	other := *l
	other.User, other.Manager = user, manager
	return &other
}

// Kinds implements Client.
func (l *Local) Kinds() *resource.Set { return l.Set }

// Read implements Client.
func (l *Local) Read() resource.Reader { return l.View.Snapshot() }

func (l *Local) request(k resource.Kind, ns, name, sub string) *server.Request {
	return &server.Request{User: l.User, Kind: k, GVK: k.Info().GVK, Namespace: ns, Name: name, Sub: sub,
		Manager: l.Manager, Warn: func(string) {}}
}

// Get implements Client.
func (l *Local) Get(ctx context.Context, k resource.Kind, ns, name string) (_ resource.Object, err error) {
	defer caught(k, "get", &err)
	return object(l.Ops.Get(ctx, l.request(k, ns, name, ""), &metav1.GetOptions{}))
}

// Create implements Client.
func (l *Local) Create(ctx context.Context, k resource.Kind, obj resource.Object) (_ resource.Object, err error) {
	defer caught(k, "create", &err)
	r := l.request(k, obj.GetNamespace(), obj.GetName(), "")
	if k.Info().Virtual { // a review: to create it is to ask
		return l.Ops.Call(ctx, r, "create", typedClone(k, obj))
	}
	return object(l.Ops.Create(ctx, r, typedClone(k, obj)))
}

// Update implements Client.
func (l *Local) Update(ctx context.Context, k resource.Kind, obj resource.Object, sub string) (_ resource.Object, err error) {
	defer caught(k, "update", &err)
	if sub == "scale" {
		obj = resource.Clone(obj)
	} else {
		obj = typedClone(k, obj)
		resource.AsRead(k, obj) // as with upstream's loops, which speak protobuf: an empty list takes nothing from who owns it
	}
	e, _, err := l.Ops.Update(ctx, l.request(k, obj.GetNamespace(), obj.GetName(), sub), obj)
	return object(e, err)
}

// Patch implements Client.
func (l *Local) Patch(ctx context.Context, k resource.Kind, ns, name string, p Patch) (_ resource.Object, err error) {
	defer caught(k, "patch", &err)
	r := l.request(k, ns, name, p.Sub)
	r.DryRun, r.Manager = p.DryRun, cmp.Or(p.Manager, r.Manager)
	if !p.As.Empty() {
		r.GVK = p.As
	}
	e, _, err := l.Ops.Patch(ctx, r, p.Type, p.Data, p.Force)
	return object(e, err)
}

// Delete implements Client.
func (l *Local) Delete(ctx context.Context, k resource.Kind, ns, name string, opts *metav1.DeleteOptions) (err error) {
	defer caught(k, "delete", &err)
	if opts == nil {
		opts = &metav1.DeleteOptions{}
	}
	_, _, err = l.Ops.Delete(ctx, l.request(k, ns, name, ""), opts)
	return err
}

// Call implements Client.
func (l *Local) Call(ctx context.Context, k resource.Kind, ns, name, sub string, in resource.Object) (_ resource.Object, err error) {
	defer caught(k, "call", &err)
	return l.Ops.Call(ctx, l.request(k, ns, name, sub), "create", in)
}

// caught turns a panic into the error that a request by HTTP would get: it concerns one request, and who makes it, on whatever goroutine,
// goes on.
func caught(k resource.Kind, verb string, err *error) {
	if p := recover(); p != nil {
		slog.Error("request panicked", "verb", verb, "resource", k.Info().GR().String(), "err", fmt.Sprint(p),
			"stack", string(debug.Stack()))
		*err = server.Panicked()
	}
}

func object(e *view.Entry, err error) (resource.Object, error) {
	if err != nil {
		return nil, err
	}
	return e.Object, nil
}

// Feed implements Client.
func (l *Local) Feed(kinds ...resource.Kind) Feed { return NewFeed(l.View, kinds...) }
