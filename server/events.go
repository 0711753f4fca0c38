package server

import (
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/resource"
)

// The kind Event is served in two groups. The rules of events.k8s.io are stricter, which the kind itself can't
// tell: it sees one stored form only.

// newEvents says that the caller speaks events.k8s.io.
func (r *Request) newEvents() bool {
	return is(r.Kind, "", "events") && r.spoken().Group == "events.k8s.io"
}

// oldEvents says that the caller speaks of events in the core group.
func (r *Request) oldEvents() bool {
	return is(r.Kind, "", "events") && r.spoken().Group == ""
}

// checkName is the kind's rule for names, as the caller's version has it.
func (r *Request) checkName(name string, prefix bool) []string {
	if r.newEvents() {
		return validation.NameIsDNSSubdomain(name, prefix)
	}
	return r.Kind.CheckName(name, prefix)
}

// checkNewEvent demands what only events.k8s.io demands of a new event.
func checkNewEvent(r *Request, obj resource.Object) (errs field.ErrorList) {
	e, ok := obj.(*core.Event)
	if !ok || !r.newEvents() {
		return nil
	}
	if e.EventTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("eventTime"), ""))
	}
	if e.Type != core.EventTypeNormal && e.Type != core.EventTypeWarning {
		errs = append(errs, field.Invalid(field.NewPath("type"), "", "has invalid value: "+e.Type))
	}
	return errs
}
