package past

import (
	"context"
	"errors"
	"time"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/history"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// ErrTooMuch says that a time lies too far back.
var ErrTooMuch = errors.New("too much has changed since then to have it all in memory: ask for a later time")

// World is the cluster as it was at a time, and what is not known of it. What loops did then is not known: it is explained by its
// objects alone.
func (d *Desk) World(ctx context.Context, at time.Time) (*converge.World, []string, error) {
	leave, err := d.sit(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer leave()
	now := d.settle(ctx)
	first, size := map[string]*history.Record{}, int64(0) // of every object, the first write after that time
	span, err := d.History.Since(at.Add(time.Millisecond), func(r *history.Record) bool {
		if first[r.Key] == nil {
			rec := r.Keep()
			first[r.Key] = &rec
			size += int64(rec.Size())
		}
		return size < mostBytes && ctx.Err() == nil
	})
	if err == nil && size >= mostBytes {
		err = ErrTooMuch
	}
	if err = errors.Join(err, ctx.Err()); err != nil {
		return nil, nil, err
	}
	notes := Span(span, at)
	objects := map[resource.Kind][]resource.Object{}
	for key, rec := range first {
		k, _, _, ok := d.Kinds.ByKey(key)
		if !ok {
			continue // its kind is gone, and nothing says how to read it
		}
		obj, err := d.History.Object(k, rec)
		switch {
		case err != nil:
			notes = append(notes, key+": "+err.Error())
		case obj != nil:
			objects[k] = append(objects[k], obj)
		}
	}
	v := view.New(d.Kinds)
	for _, k := range d.Kinds.All() {
		if k.Info().Virtual {
			continue
		}
		list := objects[k]
		for e := range now.Entries(k, "", "") {
			if first[k.Info().Key(e.Object.GetNamespace(), e.Object.GetName())] == nil && !younger(k, e.Object, at) {
				list = append(list, e.Object)
			}
		}
		v.Replace(k, max(now.Rev(), 1), list)
	}
	return &converge.World{Read: v.Snapshot(), Kinds: d.Kinds, Now: at, Rules: d.Rules}, notes, nil
}

// younger says that an object came later, of the kinds of which the log does not say so.
func younger(k resource.Kind, obj resource.Object, at time.Time) bool {
	return k == resource.Kind(core.Events) && obj.GetCreationTimestamp().After(at)
}
