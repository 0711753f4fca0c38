// Package events has what the kind Event needs of the front door: it is served in two groups with rules of their own.
package events

import (
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/validation"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
)

// Extension is for events. The rules of events.k8s.io are stricter, which the kind itself can't tell: it sees one stored form only.
func Extension() server.Extension {
	return server.Extension{Resource: corev1.Resource("events"), Uncollected: true, CheckName: checkName,
		OldMeta: func(r *server.Request) bool { return r.Spoken().Group == corev1.GroupName }}
}

// checkName is the rule for names, as the caller's version has it.
func checkName(r *server.Request, name string, prefix bool) []string {
	if r.Spoken().Group == eventsv1.GroupName {
		return validation.NameIsDNSSubdomain(name, prefix)
	}
	return resource.CheckName(r.Kind, name, prefix)
}
