package server

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/apply"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/view"
)

// Server performs operations on objects. It holds no state but the newest revision that it acknowledged and
// snapshots of lists under way, which the store can tell again. It is safe for concurrent use.
type Server struct {
	Config
	acked atomic.Int64 // no write that this server acknowledged is newer
	alloc allocator
	pages pages
}

var _ Operations = (*Server)(nil)

// New returns a server over the given parts. It starts nothing.
func New(c Config) *Server {
	s := &Server{Config: c}
	s.alloc.init(c.Network)
	return s
}

func (s *Server) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

// stamp is the present as metadata tells it: in whole seconds.
func (s *Server) stamp() metav1.Time { return metav1.Time{Time: s.now().Truncate(time.Second)} }

func (s *Server) ack(rev int64) {
	for {
		old := s.acked.Load()
		if rev <= old || s.acked.CompareAndSwap(old, rev) {
			return
		}
	}
}

// fresh returns a snapshot that holds every write acknowledged before the call.
func (s *Server) fresh(ctx context.Context) (*view.Snapshot, error) {
	rev := s.acked.Load()
	if !s.Sole {
		var err error
		if rev, err = s.Store.Revision(ctx); err != nil {
			return nil, s.storeError(err, "read the revision")
		}
	}
	return s.wait(ctx, rev)
}

func (s *Server) wait(ctx context.Context, rev int64) (*view.Snapshot, error) {
	snap, err := s.View.Wait(ctx, rev)
	if err != nil {
		return nil, s.storeError(err, "wait for the view")
	}
	return snap, nil
}

// live reads one object for plugins that a stale view would mislead.
func (s *Server) live(ctx context.Context, k resource.Kind, ns, name string) (resource.Object, error) {
	snap, err := s.fresh(ctx)
	if err != nil {
		return nil, err
	}
	return snap.Lookup(k, ns, name), nil
}

// asked is the request as admission plugins see it.
func (s *Server) asked(r *Request, op admission.Op, obj, old resource.Object, options any) *admission.Request {
	q := &admission.Request{Op: op, Kind: r.Kind, GVK: r.GVK, Namespace: r.Namespace, Name: r.Name, Sub: r.Sub,
		Object: obj, Old: old, Options: options, User: r.User, DryRun: r.DryRun, Read: &newest{view: s.View},
		Warn: r.warn, Annotate: r.Annotate, Live: s.live}
	if q.Name == "" && obj != nil {
		q.Name = obj.GetName()
	}
	if isNamespaces(r.Kind) {
		q.Namespace = q.Name
	}
	return q
}

// mutate runs the plugins that may change the object of a write. What comes of it may not grant more than the writer holds,
// whether it is valid or not.
func (s *Server) mutate(ctx context.Context, r *Request, q *admission.Request) error {
	if r.direct {
		return nil
	}
	if err := s.Admission.Mutate(ctx, q); err != nil {
		return err
	}
	if s.Grants != nil && q.Kind.Info().GVK.Group == "rbac.authorization.k8s.io" {
		return s.Grants.CheckWrite(ctx, s.Authorize, r.User, r.Name, q.Object, q.Old)
	}
	return nil
}

// validate runs the plugins that may refuse a write.
func (s *Server) validate(ctx context.Context, r *Request, q *admission.Request) error {
	if r.direct {
		return nil
	}
	return s.Admission.Validate(ctx, q)
}

// write describes the request for the bookkeeping of field ownership.
func (s *Server) write(r *Request) apply.Write {
	return apply.Write{Kind: r.Kind, GVK: r.spoken(), Manager: r.manager(), Sub: r.Sub, Now: s.now()}
}

// spoken is the version of the kind that the caller speaks. The body of a subresource may be of another kind.
func (r *Request) spoken() schema.GroupVersionKind {
	i := r.Kind.Info()
	if slices.Contains(i.Also, r.GVK) {
		return r.GVK
	}
	return i.GVK
}

func (r *Request) warn(text string) {
	if r.Warn != nil {
		r.Warn(text)
	}
}

// manager is the field manager that the caller named, or the product that its user agent starts with.
func (r *Request) manager() string {
	if r.Manager != "" {
		return r.Manager
	}
	return prefixFromUserAgent(r.Agent)
}

// toHub converts what the caller sent to the version that is stored.
func (r *Request) toHub(ctx context.Context, obj resource.Object) (resource.Object, error) {
	hub, is := r.Kind.Info().GVK, obj.GetObjectKind()
	if is.GroupVersionKind().Empty() {
		is.SetGroupVersionKind(r.spoken())
	}
	if is.GroupVersionKind() == hub {
		return obj, nil
	}
	out, err := r.Kind.ConvertTo(ctx, obj, hub)
	switch {
	case err != nil && r.Kind.Info().Custom: // a webhook's failure, not the caller's
		return nil, plain(err.Error())
	case err != nil:
		return nil, invalidBody(err)
	}
	return out, nil
}
