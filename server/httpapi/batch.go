package httpapi

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/view"
)

// batches says that it takes a webhook to have objects in the version that the caller speaks.
func (p *responder) batches() (server.Batcher, bool) {
	k, ok := p.kind.(server.Batcher)
	return k, ok && k.Batched()
}

// inVersion returns the list with its objects in the version that the caller speaks, where that takes a webhook.
func (p *responder) inVersion(l *server.List) (*server.List, error) {
	if _, ok := p.batches(); !ok {
		return l, nil
	}
	out := *l
	var err error
	out.Entries, err = p.converted(p.r.Context(), l.Entries)
	return &out, err
}

// eventsInVersion is inVersion for the events of a watch.
func (p *responder) eventsInVersion(ctx context.Context, events []server.Event) ([]server.Event, error) {
	if _, ok := p.batches(); !ok || len(events) == 0 {
		return events, nil
	}
	var entries []*view.Entry
	for i := range events {
		if events[i].Entry != nil {
			entries = append(entries, events[i].Entry)
		}
	}
	entries, err := p.converted(ctx, entries)
	if err != nil { // upstream's cache of this version can't be filled
		return nil, apierrors.NewTooManyRequests("storage is (re)initializing: "+err.Error(), 1)
	}
	out := slices.Clone(events)
	for i := range out {
		if out[i].Entry != nil {
			out[i].Entry, entries = entries[0], entries[1:]
		}
	}
	return out, nil
}

// converted returns entries with their objects in the version that the caller speaks.
func (p *responder) converted(ctx context.Context, entries []*view.Entry) ([]*view.Entry, error) {
	k, _ := p.batches()
	objs := make([]resource.Object, len(entries))
	other := false
	for i, e := range entries {
		objs[i] = e.Object
		other = other || e.Object.GetObjectKind().GroupVersionKind() != p.gvk
	}
	if !other {
		return entries, nil
	}
	done, err := k.ConvertAll(ctx, objs, p.gvk)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(entries)
	for i, e := range entries {
		if done[i] != e.Object {
			out[i] = view.NewEntry(e.Kind, 0, done[i])
			out[i].Rev = e.Rev
		}
	}
	return out, nil
}
