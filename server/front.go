package server

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/resource"
)

// Server performs operations on objects. It holds no state but its Core's, snapshots of lists under way and who watches,
// which the store can tell again. It is safe for concurrent use.
type Server struct {
	*Core
	*reads
	rules  rules
	owners owners
}

var _ Operations = (*Server)(nil)

// New returns a server over the given parts. It starts nothing.
func New(c Config) *Server {
	core := &Core{Config: c, extensions: map[schema.GroupResource]*Extension{}}
	return &Server{Core: core, reads: &reads{Core: core}, rules: rules{core}, owners: owners{core}}
}

// admissionRequest is the request as admission plugins see it.
func (s *Server) admissionRequest(r *Request, op admission.Op, obj, old resource.Object, options any) *admission.Request {
	q := &admission.Request{Op: op, Kind: r.Kind, GVK: r.GVK, Namespace: r.Namespace, Name: r.Name, Sub: r.Sub,
		Object: obj, Old: old, Options: options, User: r.User, DryRun: r.DryRun, Read: newest{s.View}, Features: s.Kinds.Features(),
		Warn: r.warn, Annotate: r.Annotate, Live: s.Live, Meter: s.Meter}
	if q.Name == "" && obj != nil {
		q.Name = obj.GetName()
	}
	if s.extension(r.Kind).OwnNamespace {
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
	if admit := s.extension(r.Kind).Admit; admit != nil {
		return admit(ctx, r, q.Object, q.Old)
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

// Spoken is the version of the kind that the caller speaks. The body of a subresource may be of another kind.
func (r *Request) Spoken() schema.GroupVersionKind {
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

// ToHub converts what the caller sent to the version that is stored.
func (r *Request) ToHub(ctx context.Context, obj resource.Object) (resource.Object, error) {
	hub, is := r.Kind.Info().GVK, obj.GetObjectKind()
	if is.GroupVersionKind().Empty() {
		is.SetGroupVersionKind(r.Spoken())
	}
	if is.GroupVersionKind() == hub {
		return obj, nil
	}
	out, err := r.Kind.ConvertTo(ctx, obj, hub)
	switch {
	case err != nil && r.Kind.Info().Custom: // a webhook's failure, not the caller's
		return nil, PlainError(err.Error())
	case err != nil:
		return nil, invalidBody(err)
	}
	return out, nil
}
