package server

import (
	"bytes"
	"context"
	"log/slog"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kloop-dev/kloop/resource"
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

// stale tells whether the object, which a write leaves as it is, is stored in a form that the write would replace, as after the key of
// the encryption at rest changed or a definition got a default. It is then done all the same. If nobody can say, it is not.
func (s *Core) stale(ctx context.Context, e *view.Entry, obj resource.Object) (old bool) {
	k, custom := e.Kind.(resource.Redefined)
	before := custom && e.Rev < k.Since()
	if !before && s.Stale == nil {
		return false
	}
	key := e.Kind.Info().Key(e.Object.GetNamespace(), e.Object.GetName())
	var err error
	if before {
		old, err = s.redefined(ctx, key, e, obj)
	}
	if !old && err == nil && s.Stale != nil {
		old, err = s.Stale(ctx, key)
	}
	if err != nil {
		slog.Warn("look at the stored form", "key", key, "err", err)
	}
	return old && err == nil
}

// redefined tells whether an object of before its definition changed is stored otherwise than a write would have it: with fewer defaults,
// or fields that are pruned.
func (s *Core) redefined(ctx context.Context, key string, e *view.Entry, obj resource.Object) (bool, error) {
	kv, _, err := s.Store.Get(ctx, key)
	if err != nil || kv == nil || kv.ModRev != e.Rev {
		return false, err
	}
	next := obj.DeepCopyObject().(resource.Object)
	next.SetResourceVersion("")
	value, err := stored(e.Kind, next, e)
	return err == nil && !bytes.Equal(value, kv.Value), err
}
