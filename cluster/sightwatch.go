package cluster

import (
	"context"
	"encoding/json"
	"hash/maphash"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/view"
)

// A watching tells a reader with few rights what a list would tell it, whenever something becomes of the gaps of a namespace: what a reader
// hears of a gap is made from what it may see, so that a gap may come, change or go for it alone. Rights that are given or taken are seen
// with the next change there, or the next bookmark.
type watching struct {
	*explainer
	request *server.Request
	told    map[convergenceKey]toldGap
	from    maphash.Seed
}

// A toldGap is one that the reader has heard of.
type toldGap struct {
	sum  uint64 // 0: what it heard is not known
	bare *convergence.Gap
}

// Watch implements server.Operations.
func (o *explainer) Watch(ctx context.Context, r *server.Request, opts *metav1.ListOptions, f func([]server.Event) error) error {
	if o.sight(ctx, r) == nil {
		return o.MemoryKinds.Watch(ctx, r, opts, f)
	}
	q := *r
	q.Offer = nil // it would tell all
	if r.Kind != resource.Kind(convergence.Gaps) || opts.LabelSelector+opts.FieldSelector != "" {
		return o.MemoryKinds.Watch(ctx, &q, opts, func(batch []server.Event) error { return f(o.seen(ctx, r, batch)) })
	}
	w := &watching{explainer: o, request: r, told: map[convergenceKey]toldGap{}, from: maphash.MakeSeed()}
	if initial := opts.SendInitialEvents; opts.ResourceVersion != "" && opts.ResourceVersion != "0" && (initial == nil || !*initial) {
		for _, e := range w.now(ctx, nil) {
			w.told[keyOf(e)] = toldGap{bare: bareOf(e)}
		}
	}
	return o.MemoryKinds.Watch(ctx, &q, opts, func(batch []server.Event) error { return f(w.changes(ctx, batch)) })
}

// seen gives what the reader may see of events, each for itself.
func (o *explainer) seen(ctx context.Context, r *server.Request, batch []server.Event) (out []server.Event) {
	s := o.sight(ctx, r) // anew: rights change
	if s == nil {
		return batch
	}
	for _, e := range batch {
		if e.Entry != nil {
			s.spaces[e.Entry.Object.GetNamespace()] = true
		}
	}
	all := o.board.World()
	for _, e := range batch {
		if g, gone := goneGap(e); gone && s.sees(ctx, g.Object) {
			e.Entry = view.NewEntry(r.Kind, e.Entry.Rev, barely(g))
		} else if e.Entry = s.shown(ctx, all, r.Kind, e.Entry); e.Entry == nil && e.Type != server.Bookmark {
			continue
		}
		out = append(out, e)
	}
	return out
}

// goneGap is the gap of which an event says that it is over: its object may be gone.
func goneGap(e server.Event) (*convergence.Gap, bool) {
	if e.Type != server.Deleted || e.Entry == nil {
		return nil, false
	}
	g, ok := e.Entry.Object.(*convergence.Gap)
	return g, ok
}

// barely is a gap that is over, without what was said of it.
func barely(g *convergence.Gap) *convergence.Gap {
	return &convergence.Gap{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: g.Name}, Object: g.Object, Since: g.Since}
}

func bareOf(e *view.Entry) *convergence.Gap { return barely(resource.As[*convergence.Gap](e.Object)) }

func keyOf(e *view.Entry) convergenceKey {
	return convergenceKey{e.Object.GetNamespace(), e.Object.GetName()}
}

// changes are the events by which the reader comes to know what a list would tell it now.
func (w *watching) changes(ctx context.Context, batch []server.Event) (out []server.Event) {
	in, rev, rest := map[string]bool{}, int64(0), []server.Event(nil)
	for _, e := range batch {
		rev = max(rev, e.Rev)
		if e.Type == server.Bookmark || e.Entry == nil {
			in, rest = nil, append(rest, e) // once in a while, all: rights change
			continue
		}
		rev = max(rev, e.Entry.Rev)
		if g, is := e.Entry.Object.(*convergence.Gap); !is || g.Object.Namespace == "" {
			in = nil // what it stems from may lie anywhere
		} else if in != nil {
			in[e.Entry.Object.GetNamespace()] = true
		}
	}
	there := map[convergenceKey]bool{}
	for _, e := range w.now(ctx, in) {
		key, g := keyOf(e), *resource.As[*convergence.Gap](e.Object)
		there[key] = true
		g.ResourceVersion = ""
		old, had := w.told[key]
		is := toldGap{w.sum(&g), barely(&g)}
		if had && old.sum == is.sum {
			continue
		}
		w.told[key] = is
		kind := server.Added
		if had {
			kind = server.Modified
		}
		out = append(out, server.Event{Type: kind, Entry: view.NewEntry(w.request.Kind, rev, &g), Rev: rev})
	}
	for _, key := range slices.SortedFunc(maps.Keys(w.told), convergenceKey.compare) {
		if old := w.told[key]; !there[key] && (in == nil || in[key.ns]) {
			delete(w.told, key)
			out = append(out, server.Event{Type: server.Deleted, Entry: view.NewEntry(w.request.Kind, rev, old.bare), Rev: rev})
		}
	}
	return append(out, rest...)
}

// now lists the gaps of some namespaces as a list would give them to the reader; nil: those of all.
func (w *watching) now(ctx context.Context, in map[string]bool) []*view.Entry {
	var entries []*view.Entry
	for obj := range w.Read().Each(convergence.Gaps, w.request.Namespace) {
		if in == nil || in[obj.GetNamespace()] {
			entries = append(entries, view.NewEntry(w.request.Kind, 0, obj))
		}
	}
	return w.sight(ctx, w.request).tell(ctx, w.board.World(), w.request, entries, true)
}

func (w *watching) sum(g *convergence.Gap) uint64 {
	data, err := json.Marshal(g)
	if err != nil {
		return 0 // can't be; then each look tells it anew
	}
	return maphash.Bytes(w.from, data)
}
