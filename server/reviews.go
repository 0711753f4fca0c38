package server

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/resource"
)

// Reviews answers questions about who somebody is and what they may do; auth/review has one.
type Reviews interface {
	// Answer returns a copy of the review with its status filled in; ok is false for what is no review.
	Answer(ctx context.Context, u *auth.User, namespace string, in resource.Object) (out resource.Object, ok bool, err error)
}

// review answers TokenReview, SelfSubjectReview and the access reviews.
func (s *Server) review(ctx context.Context, r *Request, in resource.Object) (resource.Object, error) {
	if s.Reviews == nil {
		return nil, apierrors.NewServiceUnavailable("this server answers no reviews")
	}
	hub, err := r.toHub(ctx, in)
	if err != nil {
		return nil, err
	}
	if err := s.admitCall(ctx, r, hub); err != nil {
		return nil, err
	}
	out, ok, err := s.Reviews.Answer(ctx, r.User, r.scope(), hub)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, notAllowed(r, "create")
	}
	if out.GetObjectKind().GroupVersionKind() == r.spoken() {
		return out, nil
	}
	return r.Kind.ConvertTo(ctx, out, r.spoken())
}
