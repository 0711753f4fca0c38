package plan

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// A hand is the client of one loop: each of its calls, and each look at changes, waits for its turn.
type hand struct {
	*client.Local
	turns *turns
	who   string
}

var _ client.Client = (*hand)(nil)

func (h *hand) turn(ctx context.Context, writes bool, what ...string) error {
	return h.turns.ask(ctx, &turn{who: h.who, what: fmt.Sprint(what), writes: writes})
}

// nameOf tells an object that has no name yet from others that wait to be made.
func nameOf(obj metav1.Object) string {
	if name := obj.GetName(); name != "" {
		return name
	}
	sum := fnv.New64a()
	if p, ok := obj.(interface{ Marshal() ([]byte, error) }); ok {
		data, err := p.Marshal()
		if err == nil {
			sum.Write(data)
		}
	}
	return fmt.Sprintf("%s%x", obj.GetGenerateName(), sum.Sum64())
}

// Get implements client.Client.
func (h *hand) Get(ctx context.Context, k resource.Kind, ns, name string) (resource.Object, error) {
	if err := h.turn(ctx, false, "get", k.Info().Plural, ns, name); err != nil {
		return nil, err
	}
	return h.Local.Get(ctx, k, ns, name)
}

// Create implements client.Client.
func (h *hand) Create(ctx context.Context, k resource.Kind, obj resource.Object) (resource.Object, error) {
	if err := h.turn(ctx, true, "create", k.Info().Plural, obj.GetNamespace(), nameOf(obj)); err != nil {
		return nil, err
	}
	return h.Local.Create(ctx, k, obj)
}

// Update implements client.Client.
func (h *hand) Update(ctx context.Context, k resource.Kind, obj resource.Object, sub string) (resource.Object, error) {
	if err := h.turn(ctx, true, "update", k.Info().Plural, obj.GetNamespace(), obj.GetName(), sub); err != nil {
		return nil, err
	}
	return h.Local.Update(ctx, k, obj, sub)
}

// Patch implements client.Client.
func (h *hand) Patch(ctx context.Context, k resource.Kind, ns, name string, p client.Patch) (resource.Object, error) {
	if err := h.turn(ctx, true, "patch", k.Info().Plural, ns, name, p.Sub); err != nil {
		return nil, err
	}
	return h.Local.Patch(ctx, k, ns, name, p)
}

// Delete implements client.Client.
func (h *hand) Delete(ctx context.Context, k resource.Kind, ns, name string, opts *metav1.DeleteOptions) error {
	if err := h.turn(ctx, true, "delete", k.Info().Plural, ns, name); err != nil {
		return err
	}
	return h.Local.Delete(ctx, k, ns, name, opts)
}

// Call implements client.Client.
func (h *hand) Call(ctx context.Context, k resource.Kind, ns, name, sub string, in resource.Object) (resource.Object, error) {
	if err := h.turn(ctx, true, "call", k.Info().Plural, ns, name, sub); err != nil {
		return nil, err
	}
	return h.Local.Call(ctx, k, ns, name, sub, in)
}

// Feed implements client.Client.
func (h *hand) Feed(kinds ...resource.Kind) client.Feed { return &feed{hand: h, kinds: kinds} }

// A feed hears of changes when its turn comes.
type feed struct {
	hand  *hand
	kinds []resource.Kind
	at    *view.Cursor
}

// Next implements client.Feed.
func (f *feed) Next(ctx context.Context) (client.Batch, error) {
	for f.at != nil {
		select {
		case <-f.at.Changed():
		case <-ctx.Done():
			return client.Batch{}, ctx.Err()
		}
		if err := f.hand.turn(ctx, false, "hear"); err != nil {
			return client.Batch{}, err
		}
		b, err := f.at.TryNext()
		switch {
		case errors.Is(err, view.ErrExpired):
			f.at = nil
		case err != nil:
			return client.Batch{}, err
		case len(b.Changes) > 0:
			return client.Batch{Read: b.Snapshot, Changes: changesOf(b.Changes)}, nil
		}
	}
	if err := f.hand.turn(ctx, false, "look at all"); err != nil {
		return client.Batch{}, err
	}
	snap := f.hand.View.Snapshot()
	f.at = f.hand.View.CursorAt(snap, slices.Clone(f.kinds)...)
	return client.Batch{Read: snap, Reset: true}, nil
}

// Reuse implements client.Feed: every batch has changes of its own.
func (f *feed) Reuse() {}

func changesOf(list []view.Change) []client.Change {
	out := make([]client.Change, len(list))
	for i, c := range list {
		out[i] = client.Change{Kind: c.Kind, Rev: c.Rev}
		if c.Old != nil {
			out[i].Old = c.Old.Object
		}
		if c.New != nil {
			out[i].New = c.New.Object
		}
	}
	return out
}
