package server

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/view"
)

// patience is the time that a read waits for a revision that the caller has seen elsewhere.
const patience = 3 * time.Second

// reads are the operations that change nothing: get, list and watch, from the view or, for the past, from the store. They hold
// no state but snapshots of lists under way, who watches, and what watches begin with.
type reads struct {
	*Core
	pages     pages
	audiences audiences
	openings  openings
}

// Get implements Operations. Without a resourceVersion the answer holds every write acknowledged before the
// call; with one it is at least that new; with "0" it is whatever is at hand.
func (s *reads) Get(ctx context.Context, r *Request, opts *metav1.GetOptions) (*view.Entry, error) {
	if compute := s.extension(r.Kind).Compute; compute != nil {
		return ComputedKind(compute).Get(ctx, r, opts)
	}
	var asked string
	if opts != nil {
		asked = opts.ResourceVersion
	}
	if _, err := parseRevision(asked); err != nil && r.Kind.Info().Uncached {
		return nil, illegible(asked, err)
	}
	if err := s.attain(ctx, asked); err != nil {
		return nil, s.retried(r, err)
	}
	e := s.View.Entry(r.Kind, r.Scope(), r.Name)
	if e == nil {
		if err := s.readable(r); err != nil {
			return nil, err
		}
		return nil, NotFound(r)
	}
	if r.Sub == "scale" {
		obj, err := spoken(ctx, r, e.Object)
		if err != nil {
			return nil, err
		}
		return scaleEntry(r, obj)
	}
	return e, nil
}

// retried is an error of waiting for a revision of the request's kind.
func (s *reads) retried(r *Request, err error) error {
	if r.Kind.Info().Uncached {
		return unretried(err)
	}
	return err
}

// Scope is the namespace of the request, empty for cluster-scoped kinds.
func (r *Request) Scope() string {
	if r.Kind.Info().Namespaced {
		return r.Namespace
	}
	return ""
}

// notOlder returns a snapshot for a resourceVersion that asks for one at least that new.
func (s *reads) notOlder(ctx context.Context, asked string) (*view.Snapshot, error) {
	if err := s.attain(ctx, asked); err != nil {
		return nil, err
	}
	return s.View.Snapshot(), nil
}

// attain waits until the view is as new as a resourceVersion asks for.
func (s *reads) attain(ctx context.Context, asked string) error {
	rev, err := parseRevision(asked)
	switch {
	case err != nil:
		return PlainError(badRevision(asked, err))
	case asked == "":
		return s.catchUp(ctx)
	case rev == 0:
		return nil
	}
	return s.reach(ctx, rev)
}

// reach waits a little while for a revision.
func (s *reads) reach(ctx context.Context, rev int64) error {
	if s.View.Revision() >= rev {
		return nil
	}
	if err := s.catchUp(ctx); err != nil {
		return err
	}
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := s.View.Reach(short, rev)
	if err != nil && ctx.Err() == nil && short.Err() != nil {
		return tooLarge(rev, s.View.Revision())
	}
	if err != nil {
		return StoreError(err, "wait for the view")
	}
	return nil
}
