package httpapi

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/view"
)

// A batcher is a kind whose versions are converted by others: many objects at once cost as much as one.
type batcher interface {
	Batched() bool
	ConvertAll(ctx context.Context, objs []resource.Object, gvk schema.GroupVersionKind) ([]resource.Object, error)
}

// inVersion returns the list with its objects in the version that the caller speaks, where that takes a webhook.
func (c *call) inVersion(l *server.List) (*server.List, error) {
	k, ok := c.kind.(batcher)
	if !ok || !k.Batched() {
		return l, nil
	}
	objs := make([]resource.Object, len(l.Entries))
	other := false
	for i, e := range l.Entries {
		objs[i] = e.Object
		other = other || e.Object.GetObjectKind().GroupVersionKind() != c.gvk
	}
	if !other {
		return l, nil
	}
	converted, err := k.ConvertAll(c.r.Context(), objs, c.gvk)
	if err != nil {
		return nil, err
	}
	out := *l
	out.Entries = make([]*view.Entry, len(l.Entries))
	for i, e := range l.Entries {
		if out.Entries[i] = e; converted[i] != e.Object {
			out.Entries[i] = view.NewEntry(e.Kind, 0, converted[i])
		}
	}
	return &out, nil
}
