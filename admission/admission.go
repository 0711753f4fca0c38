// Package admission holds the rules that change or refuse writes between decoding and storing. A plugin is
// one value in the table of general.go, or of package plugins, in upstream's order.
package admission

import (
	"context"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/features"
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
	Features  *features.Set   // what is on in the cluster; nil: the newest version's defaults
	Warn      func(text string)
	// Annotate adds an annotation to the request's audit event; may be nil.
	Annotate func(key, value string)
	// Target holds the options of a Connect, *corev1.PodExecOptions and the like; nil for all other operations.
	Target runtime.Object
	// Again is set by a policy or webhook that changed the object: the mutating pass then runs a second time, so that
	// all plugins see the outcome. Round is 0 in the first pass, 1 in the second. Memory holds what plugins keep from
	// one pass to the next, by their names.
	Again  bool
	Round  int
	Memory map[string]any
	Meter  *Meter // how long plugins take; may be nil
	// Live reads one object linearizably, for rules that a stale view would break.
	Live func(ctx context.Context, k resource.Kind, ns, name string) (resource.Object, error)
}

// A Plugin is one rule. Either function may be nil.
type Plugin struct {
	Name string
	Off  bool // unless somebody chooses it
	// Mutate may change r.Object. It runs before validation.
	Mutate func(ctx context.Context, r *Request) error
	// Validate must not change r.Object. An error (a *apierrors.StatusError as upstream's) refuses the request.
	Validate func(ctx context.Context, r *Request) error
}

// A Chain runs plugins in order.
type Chain []Plugin

// Mutate runs the mutating pass, and once more if a policy or webhook asked for that.
func (c Chain) Mutate(ctx context.Context, r *Request) error {
	began := r.Meter.begin()
	err := c.mutate(ctx, r)
	if err == nil && r.Again && r.Round == 0 {
		r.Round = 1
		err = c.mutate(ctx, r)
	}
	r.Meter.pass(admit, r.Op, err, began)
	return err
}

func (c Chain) mutate(ctx context.Context, r *Request) error {
	at := r.Meter.begin()
	for i, p := range c {
		if p.Mutate != nil {
			err := p.Mutate(ctx, r)
			at = r.Meter.plugin(i, p.Name, admit, r.Op, err, at)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// Validate runs the validating pass.
func (c Chain) Validate(ctx context.Context, r *Request) (err error) {
	began := r.Meter.begin()
	at := began
	for i, p := range c {
		if p.Validate != nil {
			err = p.Validate(ctx, r)
			if at = r.Meter.plugin(i, p.Name, validate, r.Op, err, at); err != nil {
				break
			}
		}
	}
	r.Meter.pass(validate, r.Op, err, began)
	return err
}

// Spoken is the kind of what the caller sent: the object's version, the body of a call, the options of a connection.
func (r *Request) Spoken() schema.GroupVersionKind {
	if r.Target != nil {
		if gvk := r.Target.GetObjectKind().GroupVersionKind(); !gvk.Empty() {
			return gvk
		}
		return schema.GroupVersionKind{Version: "v1", Kind: reflect.TypeOf(r.Target).Elem().Name()} // all of them are of the core group
	}
	sub, ok := r.Kind.Info().Sub(r.Sub)
	switch {
	case !ok || sub.GVK.Empty():
		return r.version()
	case r.Called():
		if gvk := r.Object.GetObjectKind().GroupVersionKind(); !gvk.Empty() {
			return gvk
		}
	}
	return sub.GVK
}

// Called says that the object is the body of a call, not an object of the kind: an Eviction, a TokenRequest.
func (r *Request) Called() bool {
	if r.Sub == "" || r.Sub == "scale" || r.Object == nil {
		return false
	}
	sub, ok := r.Kind.Info().Sub(r.Sub)
	return ok && !sub.GVK.Empty()
}

// Resource is the resource of the request in the version that the caller spoke.
func (r *Request) Resource() schema.GroupVersionResource {
	return r.version().GroupVersion().WithResource(r.Kind.Info().Plural)
}

// version is the version of the kind that the caller spoke.
func (r *Request) version() schema.GroupVersionKind {
	i := r.Kind.Info()
	if slices.Contains(i.Also, r.GVK) {
		return r.GVK
	}
	return i.GVK
}
