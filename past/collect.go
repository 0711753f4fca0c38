package past

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/kloop-dev/kloop/history"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/trail"
	"github.com/kloop-dev/kloop/view"
)

// before bounds how long a cause may lie before what it led to.
const before = 10 * time.Minute

// A collecting makes the steps of one answer.
type collecting struct {
	desk *Desk
	q    *query
	who  Reader
	now  *view.Snapshot
	from time.Time
	told bool // the reader may know which users wrote

	graph  *trail.Graph
	writes map[int64]*trail.Write
	steps  []found
	open   map[string]int // the last step of an object, whose next state is not known yet
}

// found is a step as the log has it.
type found struct {
	kind     resource.Kind
	ns, name string
	rec      history.Record
	next     *history.Record // the next write of the object; nil: there is none
	end      *view.Entry     // what it is now; nil: nothing, or it has changed since
}

// causes reads who wrote and because of what.
func (c *collecting) causes(ctx context.Context, out *Answer) {
	c.writes = map[int64]*trail.Write{}
	if c.desk.Writes == nil {
		return
	}
	list, notes := c.desk.Writes(ctx, c.from.Add(-before))
	out.Notes = append(out.Notes, notes...)
	sorted(list)
	c.graph = trail.NewGraph(list)
	for i := range list {
		c.writes[list[i].Rev] = &list[i]
	}
}

// take takes in a record of the log.
func (c *collecting) take(ctx context.Context, r *history.Record) bool {
	last, known := c.open[r.Key]
	inside := !r.At.After(c.q.until)
	if !known && !inside {
		return ctx.Err() == nil
	}
	if known {
		rec := r.Keep()
		c.steps[last].next = &rec
		delete(c.open, r.Key)
	}
	if !inside {
		return ctx.Err() == nil
	}
	k, ns, name, ok := c.desk.Kinds.ByKey(r.Key)
	if !ok || !c.q.wants(k, ns, name) || !c.who.Sees(ctx, k, ns, name) {
		return ctx.Err() == nil
	}
	c.open[r.Key] = len(c.steps)
	c.steps = append(c.steps, found{kind: k, ns: ns, name: name, rec: r.Keep()})
	return ctx.Err() == nil
}

// finish looks up what objects are now.
func (c *collecting) finish() {
	for _, i := range c.open {
		s := &c.steps[i]
		if e := c.now.Entry(s.kind, s.ns, s.name); e != nil && e.Rev == s.rec.Rev {
			s.end = e
		}
	}
}

var errMissed = errors.New("a later change of it was not seen")

// after is the state that the write left; nil: none.
func (f *found) after(c *collecting) (resource.Object, error) {
	switch {
	case f.rec.Deleted():
		return nil, nil
	case f.end != nil:
		return f.end.Object, nil
	case f.next != nil && f.next.Was == f.rec.Rev:
		return c.desk.History.Object(f.kind, f.next)
	}
	return nil, errMissed
}

// told makes the step; nil: it is not worth telling.
func (f *found) told(ctx context.Context, c *collecting) *Step {
	s := &Step{Object: objectOf(f.kind, f.ns, f.name), Rev: f.rec.Rev, At: f.rec.At, Verb: trail.Changed}
	f.cause(ctx, c, s)
	old, err := c.desk.History.Object(f.kind, &f.rec)
	now, err2 := f.after(c)
	if err = errors.Join(err, err2); err != nil {
		s.Unknown = err.Error()
	}
	switch {
	case f.rec.Created():
		s.Verb = trail.Created
	case f.rec.Deleted():
		s.Verb = trail.Deleted
	case old != nil && now != nil && old.GetDeletionTimestamp() == nil && now.GetDeletionTimestamp() != nil:
		s.Verb = trail.Marked
	}
	open := c.q.whole && c.q.open && f.rec.Sealed()
	before, err := c.document(old, open)
	after, err2 := c.document(now, open)
	if err = errors.Join(err, err2); err != nil {
		s.Unknown = err.Error()
		return s
	}
	if s.Verb == trail.Changed && s.Unknown == "" && !f.differs(c, s, before, after) {
		return nil
	}
	if c.q.whole {
		s.Before, s.After = before, after
	}
	return s
}

// differs tells the fields that changed; false: none that are asked for.
func (f *found) differs(c *collecting, s *Step, before, after json.RawMessage) bool {
	a, err := Tree(before)
	b, err2 := Tree(after)
	if err = errors.Join(err, err2); err != nil {
		s.Unknown = err.Error()
		return true
	}
	for _, field := range Fields(a, b) {
		if c.q.status || !field.Status() {
			s.Fields = append(s.Fields, field)
		}
	}
	return len(s.Fields) > 0
}

// document is an object, which the reader may get, as JSON: with values of Secrets only where it is to be open.
func (c *collecting) document(obj resource.Object, open bool) (json.RawMessage, error) {
	if obj == nil {
		return nil, nil
	}
	if !open {
		obj = c.desk.History.Masked(obj)
	}
	return codec.MarshalJSON(obj)
}

// cause says who wrote, and because of what.
func (f *found) cause(ctx context.Context, c *collecting, s *Step) {
	w := c.writes[f.rec.Rev]
	if w == nil {
		return
	}
	root := *w
	if led := c.graph.Because(*w); len(led) > 0 {
		root = led[len(led)-1]
	}
	own := *w
	if s.Program = part(w); !c.told {
		own.Hide()
		root.Hide()
	}
	s.By, s.User = own.By(), own.User
	if root.Cause != nil {
		return
	}
	s.Root = &Root{Rev: root.Rev, At: root.At, By: root.By(), User: root.User}
	object := root.Ref
	object.Rev = 0
	for _, k := range c.desk.Kinds.All() {
		if k.Info().GR().String() == object.Resource && c.who.Sees(ctx, k, object.Namespace, object.Name) {
			s.Root.Object, s.Root.Verb, s.Root.What = object, root.Verb, root.What
			return
		}
	}
}
