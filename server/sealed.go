package server

import (
	"context"
	"log/slog"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kloop-dev/kloop/view"
)

// readable fails when the object of the request, or one of those that it lists, stands in the store but can't be read.
// Without it such an object would look as if it did not exist.
func (s *Core) readable(r *Request) error {
	i := r.Kind.Info()
	if i.Virtual {
		return nil
	}
	path := i.Key(r.Scope(), r.Name)
	if r.Name == "" && r.Scope() == "" {
		path = i.Prefix
	}
	err := s.View.Unreadable(path)
	if err == nil {
		return nil
	}
	return apierrors.NewInternalError(err)
}

// stale tells whether the object is stored in a form that a write would replace, as after the key of the encryption at
// rest changed. A write that changes nothing is then done all the same. If nobody can say, it is not.
func (s *Core) stale(ctx context.Context, e *view.Entry) bool {
	if s.Stale == nil {
		return false
	}
	key := e.Kind.Info().Key(e.Object.GetNamespace(), e.Object.GetName())
	old, err := s.Stale(ctx, key)
	if err != nil {
		slog.Warn("look at the stored form", "key", key, "err", err)
	}
	return old && err == nil
}
