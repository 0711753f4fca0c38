package server

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// A Compute makes the objects of a virtual kind when somebody asks: those in the namespace ("" for all) that have
// the name ("" for all). It may return others too. Errors are answers: *apierrors.StatusError or wrapping one.
type Compute func(ctx context.Context, k resource.Kind, ns, name string) ([]resource.Object, error)

// ComputedKind returns operations for kinds whose objects are computed at every read. They can be got and listed,
// with selectors; they have no revision, and a watch is refused. See MemoryKinds for kinds that are to be watched.
func ComputedKind(f Compute) Operations { return computing{Compute: f} }

type computing struct {
	readOnly
	Compute
}

// Get implements Operations.
func (c computing) Get(ctx context.Context, r *Request, _ *metav1.GetOptions) (*view.Entry, error) {
	list, err := c.Compute(ctx, r.Kind, r.Scope(), r.Name)
	if err != nil {
		return nil, err
	}
	for _, obj := range list {
		if obj.GetName() == r.Name && obj.GetNamespace() == r.Scope() {
			return view.NewEntry(r.Kind, 0, obj), nil
		}
	}
	return nil, NotFound(r)
}

// List implements Operations.
func (c computing) List(ctx context.Context, r *Request, opts *metav1.ListOptions) (*List, error) {
	if opts == nil {
		opts = &metav1.ListOptions{}
	}
	which, err := choose(nil, r, opts)
	if err != nil {
		return nil, err
	}
	list, err := c.Compute(ctx, r.Kind, which.ns, which.name)
	if err != nil && !(which.name != "" && apierrors.IsNotFound(err)) { // a selector that names what is not there selects nothing
		return nil, err
	}
	l := &List{Entries: []*view.Entry{}}
	for _, obj := range list {
		if which.holds(obj) {
			l.Entries = append(l.Entries, view.NewEntry(r.Kind, 0, obj))
		}
	}
	return l, nil
}

// Watch implements Operations.
func (computing) Watch(_ context.Context, r *Request, _ *metav1.ListOptions, _ func([]Event) error) error {
	return refuse(r, "watch")
}
