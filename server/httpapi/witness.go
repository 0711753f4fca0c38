package httpapi

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Witness sees what clients do, so that somebody can say later who does not do it. It must be quick and safe for
// concurrent use.
type Witness interface {
	// Watching notes a watch that begins; the function that it returns is called when it ends.
	Watching(gr schema.GroupResource, agent string) (ended func())
	// Refused notes a request for a resource that failed.
	Refused(a Act, st *metav1.Status)
	// Wrote notes a write that went well.
	Wrote(a Act)
}

// An Act is a request for a resource.
type Act struct {
	User, Agent, Verb string
	Resource          schema.GroupResource
	Namespace, Name   string // of the object; Name is empty when the request named none
}

// witness tells of a request that has ended.
func (s *handler) witness(r *http.Request, i *info, rec *recorder) {
	if s.cfg.Witness == nil || i == nil || !i.Resource || i.User == nil {
		return
	}
	a := Act{User: i.User.Name, Agent: r.UserAgent(), Verb: i.Verb, Resource: i.gr(), Namespace: i.Namespace, Name: i.Name}
	switch i.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		if rec.failed == nil {
			s.cfg.Witness.Wrote(a)
			return
		}
	}
	if rec.failed != nil {
		s.cfg.Witness.Refused(a, rec.failed)
	}
}

// watched tells of a watch as long as it lasts.
func (c *request) watched() (ended func()) {
	if c.s.cfg.Witness == nil {
		return func() {}
	}
	return c.s.cfg.Witness.Watching(c.info.gr(), c.r.UserAgent())
}
