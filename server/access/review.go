package access

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
)

// Reviews answers questions about who somebody is and what they may do; auth/review has one.
type Reviews interface {
	// Answer returns a copy of the review with its status filled in; ok is false for what is no review.
	Answer(ctx context.Context, u *auth.User, namespace string, in resource.Object) (out resource.Object, ok bool, err error)
}

// review answers TokenReview, SelfSubjectReview and the access reviews.
func (s extension) review(ctx context.Context, r *server.Request, in resource.Object) (resource.Object, error) {
	if s.cfg.Reviews == nil {
		return nil, apierrors.NewServiceUnavailable("this server answers no reviews")
	}
	hub, err := r.ToHub(ctx, in)
	if err != nil {
		return nil, err
	}
	if err := s.AdmitCall(ctx, r, hub); err != nil {
		return nil, err
	}
	out, ok, err := s.cfg.Reviews.Answer(ctx, r.User, r.Scope(), hub)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, server.NotAllowed(r, "create")
	}
	if out.GetObjectKind().GroupVersionKind() == r.Spoken() {
		return out, nil
	}
	return r.Kind.ConvertTo(ctx, out, r.Spoken())
}
