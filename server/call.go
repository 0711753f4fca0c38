package server

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/resource"
)

// A call is code behind a subresource or a virtual kind.
// Call implements Operations. The scale subresource answers to get and update, everything else to create.
func (s *Server) Call(ctx context.Context, r *Request, verb string, in resource.Object) (resource.Object, error) {
	if r.Sub == "scale" {
		return s.callScale(ctx, r, verb, in)
	}
	f := s.extension(r.Kind).Calls[r.Sub]
	if f == nil {
		return nil, apierrors.NewGenericServerResponse(404, verb, schema.GroupResource{}, "",
			"the server could not find the requested resource", 0, true)
	}
	if verb != "create" {
		return nil, NotAllowed(r, verb)
	}
	if in == nil {
		return nil, apierrors.NewBadRequest("the request needs a body")
	}
	if err := checkNamespace(r, in); err != nil {
		return nil, err
	}
	singleOwners(r, in, "")
	return f(ctx, r, in)
}

func (s *Server) callScale(ctx context.Context, r *Request, verb string, in resource.Object) (resource.Object, error) {
	switch verb {
	case "get":
		e, err := s.Get(ctx, r, nil)
		if err != nil {
			return nil, err
		}
		return e.Object, nil
	case "update":
		e, _, err := s.Update(ctx, r, in)
		if err != nil {
			return nil, err
		}
		return e.Object, nil
	}
	return nil, NotAllowed(r, verb)
}

// Connect asks admission whether a connection may be made to a subresource that streams. opts are the caller's
// options, *corev1.PodExecOptions and the like; admission may change it.
func (s *Server) Connect(ctx context.Context, r *Request, opts runtime.Object) error {
	q := s.admissionRequest(r, admission.Connect, nil, nil, nil)
	q.Target = opts
	opts.GetObjectKind().SetGroupVersionKind(q.Spoken()) // policies see it
	if err := s.Admission.Mutate(ctx, q); err != nil {
		return err
	}
	return s.Admission.Validate(ctx, q)
}

// OwnBody records who set the fields of the body of a subresource that is a kind of its own.
func OwnBody(s *Server, r *Request, kind resource.Kind, in resource.Object) error {
	if s.Fields == nil {
		return nil
	}
	w := s.owners.write(r)
	w.Kind, w.GVK = kind, kind.Info().GVK
	if err := s.Fields.Update(w, nil, in); err != nil {
		return apierrors.NewInternalError(err)
	}
	return nil
}

// AdmitCall runs admission on the body of a call.
func (s *Server) AdmitCall(ctx context.Context, r *Request, in resource.Object) error {
	if err := s.MutateCall(ctx, r, in); err != nil {
		return err
	}
	return s.ValidateCall(ctx, r, in)
}

// MutateCall runs the half of admission that comes before anything is looked at. A review says who set its fields, though it is not stored.
func (s *Server) MutateCall(ctx context.Context, r *Request, in resource.Object) error {
	if r.Sub == "" {
		if err := s.owners.track(ctx, r, nil, in); err != nil {
			return err
		}
	}
	return s.Admission.Mutate(ctx, s.admissionRequest(r, admission.Create, in, nil, createOptions(r)))
}

// ValidateCall runs the other half.
func (s *Server) ValidateCall(ctx context.Context, r *Request, in resource.Object) error {
	return s.Admission.Validate(ctx, s.admissionRequest(r, admission.Create, in, nil, createOptions(r)))
}
