package server

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// readOnly is the half of Operations that changes something, for kinds that nobody can change from outside.
type readOnly struct{}

func refuse(r *Request, verb string) error {
	return apierrors.NewMethodNotSupported(r.Resource(), verb)
}

// Create implements Operations.
func (readOnly) Create(_ context.Context, r *Request, _ resource.Object) (*view.Entry, error) {
	return nil, refuse(r, "create")
}

// Update implements Operations.
func (readOnly) Update(_ context.Context, r *Request, _ resource.Object) (*view.Entry, bool, error) {
	return nil, false, refuse(r, "update")
}

// Patch implements Operations.
func (readOnly) Patch(_ context.Context, r *Request, _ types.PatchType, _ []byte, _ bool) (*view.Entry, bool, error) {
	return nil, false, refuse(r, "patch")
}

// Delete implements Operations.
func (readOnly) Delete(_ context.Context, r *Request, _ *metav1.DeleteOptions) (*view.Entry, bool, error) {
	return nil, false, refuse(r, "delete")
}

// DeleteCollection implements Operations.
func (readOnly) DeleteCollection(_ context.Context, r *Request, _ *metav1.DeleteOptions, _ *metav1.ListOptions) (*List, error) {
	return nil, refuse(r, "deletecollection")
}

// Call implements Operations.
func (readOnly) Call(_ context.Context, r *Request, verb string, _ resource.Object) (resource.Object, error) {
	return nil, refuse(r, verb)
}
