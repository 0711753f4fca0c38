package server

import (
	"k8s.io/apimachinery/pkg/api/validation"
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
