package server

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/view"
)

// Core carries operations and extensions: reads that are as new as they must be, and compare-and-swap writes, optimistic
// concurrency without admission and validation. It holds no state but the newest revision that it acknowledged. It is safe for
// concurrent use.
type Core struct {
	Config
	acked      atomic.Int64 // no write that this server acknowledged is newer
	extensions map[schema.GroupResource]*Extension
	custom     Extension // of every kind that users define
	none       Extension // of kinds that need nothing
}

// extension returns the extension of the kind; never nil.
func (s *Core) extension(k resource.Kind) *Extension {
	i := k.Info()
	if i.Custom {
		return &s.custom
	}
	if x := s.extensions[i.GR()]; x != nil {
		return x
	}
	return &s.none
}

// Time is the time by which the front door stamps, expires and defaults: Now, or the machine's.
func (s *Core) Time() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

// Stamp is the present as metadata tells it: in whole seconds.
func (s *Core) Stamp() metav1.Time { return metav1.Time{Time: s.Time().Truncate(time.Second)} }

func (s *Core) ack(rev int64) {
	for {
		old := s.acked.Load()
		if rev <= old || s.acked.CompareAndSwap(old, rev) {
			return
		}
	}
}

// Fresh returns a snapshot that holds every write acknowledged before the call.
func (s *Core) Fresh(ctx context.Context) (*view.Snapshot, error) {
	if err := s.catchUp(ctx); err != nil {
		return nil, err
	}
	return s.View.Snapshot(), nil
}

// catchUp waits until the view holds every write acknowledged before the call.
func (s *Core) catchUp(ctx context.Context) error {
	rev := s.acked.Load()
	if !s.Sole {
		var err error
		if rev, err = s.Store.Revision(ctx); err != nil {
			return StoreError(err, "read the revision")
		}
	}
	return s.wait(ctx, rev)
}

func (s *Core) wait(ctx context.Context, rev int64) error {
	if err := s.View.Reach(ctx, rev); err != nil {
		return StoreError(err, "wait for the view")
	}
	return nil
}

// Live reads one object for plugins that a stale view would mislead.
func (s *Core) Live(ctx context.Context, k resource.Kind, ns, name string) (resource.Object, error) {
	if err := s.catchUp(ctx); err != nil {
		return nil, err
	}
	return s.View.Entry(k, ns, name).Found(), nil
}

// Repeat calls f with the object of the request (nil when there is none) until f no longer fails for want of
// the newest state. Failures of other kinds count only when the state was the newest, but for a write that may have happened
// all the same: f would take it for another writer's.
func (s *Core) Repeat(ctx context.Context, r *Request, f func(cur *view.Entry) error) error {
	if err := s.wait(ctx, s.acked.Load()); err != nil {
		return err
	}
	sure := s.Sole
	for try := 0; ; {
		cur := s.View.Entry(r.Kind, r.Scope(), r.Name)
		if cur == nil {
			if err := s.readable(r); err != nil {
				return err
			}
		}
		err := f(cur)
		var lost *store.ConflictError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &lost):
			if try++; try == Retries {
				return conflict(r)
			}
			if err := s.after(ctx, lost); err != nil {
				return err
			}
		case sure, Doubtful(err):
			return err
		default: // perhaps only because the view is behind
			if err := s.catchUp(ctx); err != nil {
				return err
			}
		}
		sure = true
	}
}

// Edit changes an object of the server's own accord: no defaults, no admission, no validation, no change of
// field ownership. f gets a shallow copy, whose fields it may set, and may refuse; it may be called again when others write meanwhile.
func (s *Core) Edit(ctx context.Context, r *Request, f func(obj resource.Object) error) (e *view.Entry, err error) {
	err = s.Repeat(ctx, r, func(cur *view.Entry) error {
		if cur == nil {
			return NotFound(r)
		}
		obj := resource.Shallow(cur.Object)
		if err := f(obj); err != nil {
			return err
		}
		e, err = s.Overwrite(ctx, r, obj, cur)
		return err
	})
	return e, err
}

// Overwrite stores an object that waits for its removal.
func (s *Core) Overwrite(ctx context.Context, r *Request, obj resource.Object, cur *view.Entry) (*view.Entry, error) {
	if same(r.Kind, obj, cur.Object) {
		return cur, nil
	}
	if r.DryRun {
		return view.NewEntry(r.Kind, cur.Rev, obj), nil
	}
	e, err := s.Put(ctx, r.Kind, obj, cur, resource.Expiry(r.Kind, obj))
	if err == nil {
		s.note(ctx, r, cur.Object, e.Object, e.Rev)
	}
	return e, err
}

// DeleteNow removes the object and returns its last state.
func (s *Core) DeleteNow(ctx context.Context, r *Request, cur *view.Entry) (*view.Entry, bool, error) {
	if r.DryRun {
		return cur, true, nil
	}
	last, err := s.Remove(ctx, cur)
	if err != nil {
		if doubt := s.extension(r.Kind).Doubt; doubt != nil && Doubtful(err) {
			doubt()
		}
		return nil, false, err
	}
	s.note(ctx, r, cur.Object, nil, last.Rev)
	if after := s.extension(r.Kind).AfterWrite; after != nil {
		after(ctx, r, cur.Object, nil)
	}
	return last, true, nil
}

// ServerRequest is a request of the server itself, about which admission is not asked.
func ServerRequest(k resource.Kind, ns, name string) *Request {
	return &Request{User: &auth.User{Name: serverUser, Groups: []string{auth.GroupMasters}}, Kind: k, GVK: k.Info().GVK,
		Namespace: ns, Name: name, Manager: serverName, direct: true}
}
