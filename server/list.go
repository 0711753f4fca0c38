package server

import (
	"context"
	"errors"
	"iter"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	ivalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/view"
)

// List implements Operations.
func (s *reads) List(ctx context.Context, r *Request, opts *metav1.ListOptions) (*List, error) {
	if opts == nil {
		opts = &metav1.ListOptions{}
	}
	if err := s.checkListOptions(opts, false); err != nil {
		return nil, err
	}
	if compute := s.extension(r.Kind).Compute; compute != nil {
		return ComputedKind(compute).List(ctx, r, opts)
	}
	if err := s.readable(r); err != nil {
		return nil, err
	}
	c, err := choose(s.Kinds.Features(), r, opts)
	if err != nil {
		return nil, err
	}
	if opts.Continue != "" {
		return s.listOn(ctx, c, opts)
	}
	rev, err := parseRevision(opts.ResourceVersion)
	if err != nil {
		return nil, illegible(opts.ResourceVersion, err)
	}
	exact := opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact ||
		opts.ResourceVersionMatch == "" && rev > 0 && opts.Limit > 0
	if exact {
		return s.listAt(ctx, c, continueToken{Rev: rev}, opts)
	}
	snap, err := s.notOlder(ctx, opts.ResourceVersion)
	if err != nil {
		return nil, s.retried(r, err)
	}
	if err := convertible(ctx, r, snap, c); err != nil {
		return nil, err
	}
	limit := opts.Limit
	if opts.ResourceVersion == "0" {
		limit = 0 // as upstream's cache does
	}
	return s.listSnapshot(ctx, snap, c, continueToken{}, limit)
}

func (s *reads) checkListOptions(opts *metav1.ListOptions, watch bool) error {
	return CheckListOptions(opts, watch, !s.NoWatchList)
}

// CheckListOptions says what is wrong with the options of a list or watch; watchList says that a watch may begin with what there is.
func CheckListOptions(opts *metav1.ListOptions, watch, watchList bool) error {
	all := internalversion.ListOptions{Watch: watch, ResourceVersion: opts.ResourceVersion,
		ResourceVersionMatch: opts.ResourceVersionMatch, Continue: opts.Continue, SendInitialEvents: opts.SendInitialEvents}
	internalversion.SetListOptionsDefaults(&all, watchList) // a watch from the present state is one with initial events
	errs := ivalidation.ValidateListOptions(&all, watchList)
	if len(errs) == 0 {
		return nil
	}
	if err := legible(opts); err != nil { // upstream has read the selectors by then
		return err
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs)
}

// listOn goes on where a continue token says.
func (s *reads) listOn(ctx context.Context, c *choice, opts *metav1.ListOptions) (*List, error) {
	from, err := parseToken(opts.Continue)
	if err != nil {
		return nil, err
	}
	if opts.ResourceVersion != "" && opts.ResourceVersion != "0" {
		return nil, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
	}
	from.Start = c.absolute(from.Start)
	if from.Rev != anyRevision {
		return s.listAt(ctx, c, from, opts)
	}
	snap, err := s.Fresh(ctx)
	if err != nil {
		return nil, err
	}
	return s.listSnapshot(ctx, snap, c, from, opts.Limit)
}

// lookUp is the number of objects between two looks at the request: its client may have gone.
const lookUp = 256

// listSnapshot picks from a snapshot what comes behind the place. It ends with ctx: whose client is gone looks at nothing more.
func (s *reads) listSnapshot(ctx context.Context, snap *view.Snapshot, c *choice, at continueToken, limit int64) (*List, error) {
	l := &List{Revision: snap.Rev(), Entries: []*view.Entry{}}
	if limit <= 0 && c.all() { // all that from yields: nothing to look into the objects for
		if c.ns == "" {
			l.Entries = make([]*view.Entry, 0, snap.Count(c.kind, ""))
		}
		for e := range c.from(snap, at.Start) {
			l.Entries = append(l.Entries, e)
		}
		return l, nil
	}
	seen := 0
	for e := range c.from(snap, at.Start) {
		if seen++; seen%lookUp == 0 && ctx.Err() != nil {
			return nil, StoreError(ctx.Err(), "list "+c.kind.Info().Plural)
		}
		if !c.selects(e.Object) || !c.place(e.Object) {
			continue
		}
		if l.Entries = append(l.Entries, e); limit <= 0 || int64(len(l.Entries)) < limit {
			continue
		}
		if left := remaining(snap, c, e, at.Left-int64(len(l.Entries))); left > 0 {
			l.Continue = token(l.Revision, c.relative(e), left)
			s.pages.keep(snap)
			if c.all() {
				l.Remaining = &left
			}
		}
		break
	}
	return l, nil
}

// remaining counts what comes after the last entry of a page. For a choice it says only whether there is anything, chosen or not: as
// with upstream, nobody looks. Nor is anything counted when the token says how many there are: who forged it misleads himself.
func remaining(snap *view.Snapshot, c *choice, last *view.Entry, told int64) (n int64) {
	if c.single() {
		return 0
	}
	known := told > 0 && told < int64(snap.Count(c.kind, ""))
	for range snap.Entries(c.kind, c.ns, keyOf(last)) {
		if n++; !c.all() {
			break
		} else if known {
			return told
		}
	}
	return n
}

// single says that the choice is one key.
func (c *choice) single() bool { return c.name != "" && (c.ns != "" || !c.kind.Info().Namespaced) }

// from yields the entries of a snapshot that may be chosen, by the cheapest way, in key order.
func (c *choice) from(snap *view.Snapshot, after string) iter.Seq[*view.Entry] {
	switch {
	case c.none:
		return func(func(*view.Entry) bool) {}
	case c.single():
		return func(yield func(*view.Entry) bool) {
			if e := snap.Entry(c.kind, c.ns, c.name); e != nil && (after == "" || keyOf(e) > after) {
				yield(e)
			}
		}
	case c.index != nil && after == "":
		return snap.EntriesByField(c.kind, c.index.Field, c.index.Value)
	}
	if key, value, ok := c.label(); ok && after == "" {
		return snap.EntriesByLabel(c.kind, c.ns, key, value)
	}
	return snap.Entries(c.kind, c.ns, after)
}

// keyOf is the entry's key below the prefix of its kind.
func keyOf(e *view.Entry) string {
	if e.Kind.Info().Namespaced {
		return e.Object.GetNamespace() + "/" + e.Object.GetName()
	}
	return e.Object.GetName()
}

// relative is the key below what the list is about, as continue tokens hold it; absolute is its inverse.
func (c *choice) relative(e *view.Entry) string {
	if c.ns != "" {
		return e.Object.GetName()
	}
	return keyOf(e)
}

func (c *choice) absolute(key string) string {
	if c.ns != "" {
		return c.ns + "/" + key
	}
	return key
}

// listAt lists at one very revision: the present one from the view, a past one from the store's history.
func (s *reads) listAt(ctx context.Context, c *choice, at continueToken, opts *metav1.ListOptions) (*List, error) {
	rev := at.Rev
	snap := s.pages.at(rev)
	if snap == nil {
		if err := s.reach(ctx, rev); err != nil {
			return nil, unretried(err)
		}
		snap = s.View.Snapshot()
	}
	if snap.Rev() == rev {
		return s.listSnapshot(ctx, snap, c, at, opts.Limit)
	}
	l, err := s.listPast(ctx, c, rev, at.Start, opts.Limit)
	if err == nil {
		return l, nil
	}
	if errors.Is(err, store.ErrCompacted) && opts.Continue != "" {
		gone := apierrors.NewResourceExpired(tooOldText)
		at, _ := parseToken(opts.Continue)
		gone.ErrStatus.ListMeta.Continue = token(anyRevision, at.Start, 0)
		return nil, gone
	}
	return nil, StoreError(err, "list the past")
}

// pastPage bounds how much of the past is read from the store at a time.
const pastPage = 1000

func (s *reads) listPast(ctx context.Context, c *choice, rev int64, after string, limit int64) (*List, error) {
	info := c.kind.Info()
	prefix := info.Prefix
	if c.ns != "" {
		prefix += c.ns + "/"
	}
	l := &List{Revision: rev, Entries: []*view.Entry{}}
	from := ""
	if after != "" {
		from = info.Prefix + after
	}
	for {
		page, err := s.Store.List(ctx, prefix, from, pastPage, rev)
		if err != nil {
			return nil, err
		}
		for i, kv := range page.KVs {
			from = kv.Key
			e, err := c.past(s, kv)
			if err != nil {
				return nil, err
			}
			if e == nil {
				continue
			}
			if l.Entries = append(l.Entries, e); limit <= 0 || int64(len(l.Entries)) < limit {
				continue
			}
			if left := int64(len(page.KVs)-i-1) + page.Left; left > 0 && !c.single() {
				l.Continue = token(rev, c.relative(e), left)
				if c.all() {
					l.Remaining = &left
				}
			}
			return l, nil
		}
		if !page.More {
			return l, nil
		}
	}
}

// past decodes an old value; nil when it is not chosen.
func (c *choice) past(s *reads, kv store.KV) (*view.Entry, error) {
	k, ns, name, ok := s.Kinds.ByKey(kv.Key)
	if !ok || k.Info().GR() != c.kind.Info().GR() || c.name != "" && c.name != name || c.ns != "" && c.ns != ns {
		return nil, nil
	}
	obj, err := codec.FromStored(c.kind, kv.Value)
	if err != nil {
		return nil, err
	}
	if !c.holds(obj) {
		return nil, nil
	}
	return view.NewEntry(c.kind, kv.ModRev, obj), nil
}

// label returns a label that all chosen objects carry.
func (c *choice) label() (key, value string, ok bool) {
	if c.labels.Empty() {
		return "", "", false
	}
	reqs, selectable := c.labels.Requirements()
	if !selectable {
		return "", "", false
	}
	for _, q := range reqs {
		if v, exact := c.labels.RequiresExactMatch(q.Key()); exact {
			return q.Key(), v, true
		}
	}
	return "", "", false
}
