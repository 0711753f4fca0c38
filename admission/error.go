package admission

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GR is the group and resource that the request is about.
func (r *Request) GR() schema.GroupResource { return r.Kind.Info().GR() }

// name names the object in error messages: a name that is still to be generated is not known yet.
func (r *Request) name() string {
	switch {
	case r.Name != "":
		return r.Name
	case r.Object == nil:
		return "Unknown"
	case r.Object.GetName() != "":
		return r.Object.GetName()
	case r.Object.GetGenerateName() != "":
		return r.Object.GetGenerateName()
	}
	return "Unknown"
}

// Refuse refuses the request.
func (r *Request) Refuse(format string, args ...any) error {
	return apierrors.NewForbidden(r.GR(), r.name(), fmt.Errorf(format, args...))
}

// On tells whether the request is about the resource itself, not a subresource, and one of the operations.
func (r *Request) On(group, resource string, ops ...Op) bool {
	return r.Sub == "" && r.Of(group, resource, ops...)
}

// Of is on with any subresource.
func (r *Request) Of(group, resource string, ops ...Op) bool {
	i := r.Kind.Info()
	if i.Plural != resource || i.GVK.Group != group {
		return false
	}
	for _, op := range ops {
		if op == r.Op {
			return true
		}
	}
	return len(ops) == 0
}

// Warning passes a warning on to the caller, if it listens.
func (r *Request) Warning(format string, args ...any) {
	if r.Warn != nil {
		r.Warn(fmt.Sprintf(format, args...))
	}
}

// Note adds to the audit event, if there is one.
func (r *Request) Note(key, value string) {
	if r.Annotate != nil {
		r.Annotate(key, value)
	}
}

// Forbidden refuses the request for a reason, as upstream words it.
func (r *Request) Forbidden(why error) *apierrors.StatusError {
	return apierrors.NewForbidden(r.GR(), r.name(), why)
}
