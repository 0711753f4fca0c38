// Package admission holds the rules that change or refuse writes between decoding and storing. A plugin is
// one value in the table of plugins.go, in upstream's order.
package admission

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/resource"
)

// Op is the operation under admission.
type Op string

// The operations.
const (
	Create  Op = "CREATE"
	Update  Op = "UPDATE"
	Delete  Op = "DELETE"
	Connect Op = "CONNECT"
)

// A Request is one operation under admission. Plugins change Object in the mutating pass only.
type Request struct {
	Op        Op
	Kind      resource.Kind
	GVK       schema.GroupVersionKind // version that the caller spoke
	Namespace string
	Name      string
	Sub       string
	Object    resource.Object // hub version; nil for Delete; for Call-style subresources (binding, eviction, token) their body
	Old       resource.Object // nil for Create
	Options   any             // *metav1.CreateOptions and so on
	User      *auth.User
	DryRun    bool
	Read      resource.Reader // newest state
	Warn      func(text string)
	// Annotate adds an annotation to the request's audit event; may be nil.
	Annotate func(key, value string)
	// Live reads one object linearizably, for rules that a stale view would break.
	Live func(ctx context.Context, k resource.Kind, ns, name string) (resource.Object, error)
}

// A Plugin is one rule. Either function may be nil.
type Plugin struct {
	Name string
	// Mutate may change r.Object. It runs before validation.
	Mutate func(ctx context.Context, r *Request) error
	// Validate must not change r.Object. An error (a *apierrors.StatusError as upstream's) refuses the request.
	Validate func(ctx context.Context, r *Request) error
}

// A Chain runs plugins in order.
type Chain []Plugin

// Mutate runs the mutating pass.
func (c Chain) Mutate(ctx context.Context, r *Request) error {
	for _, p := range c {
		if p.Mutate != nil {
			if err := p.Mutate(ctx, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// Validate runs the validating pass.
func (c Chain) Validate(ctx context.Context, r *Request) error {
	for _, p := range c {
		if p.Validate != nil {
			if err := p.Validate(ctx, r); err != nil {
				return err
			}
		}
	}
	return nil
}
