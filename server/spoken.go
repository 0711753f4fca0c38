package server

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// A Batcher is a kind whose versions are converted by a webhook: many objects at once cost as much as one.
type Batcher interface {
	Batched() bool
	ConvertAll(ctx context.Context, objs []resource.Object, to schema.GroupVersionKind) ([]resource.Object, error)
}

// spoken returns what is stored in the version that the client speaks, if that takes a webhook. Upstream reads objects so: one that
// can't be converted is neither scaled nor deleted. Whoever speaks the version of today's store, as loops do, gets rid of older
// objects whatever their webhook does.
func spoken(ctx context.Context, r *Request, obj resource.Object) (resource.Object, error) {
	to := r.Spoken()
	if k, ok := r.Kind.(Batcher); !ok || !k.Batched() || to == r.Kind.Info().GVK || obj.GetObjectKind().GroupVersionKind() == to {
		return obj, nil
	}
	out, err := r.Kind.ConvertTo(ctx, obj, to)
	if err != nil {
		return nil, PlainError(err.Error())
	}
	return out, nil
}

// convertible fails when a webhook converts none of the objects that a selector judges: upstream looks at all of them in the version that
// the client speaks. One is asked for, since those that are chosen are converted anyway, and all may be many calls.
func convertible(ctx context.Context, r *Request, snap *view.Snapshot, c *choice) error {
	k, ok := r.Kind.(Batcher)
	if !ok || !k.Batched() || c.all() || c.single() {
		return nil
	}
	to := r.Spoken()
	for e := range snap.Entries(c.kind, c.ns, "") {
		if e.Object.GetObjectKind().GroupVersionKind() == to {
			continue
		}
		if _, err := k.ConvertAll(ctx, []resource.Object{e.Object}, to); err != nil {
			return PlainError(err.Error())
		}
		break
	}
	return nil
}
