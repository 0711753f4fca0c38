package cluster

import (
	corev1 "k8s.io/api/core/v1"

	admissionhooks "github.com/kloop-dev/kloop/admission/webhook"
	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/webhook"
)

// newCaller returns what calls webhooks, by URL or through the endpoints of a service.
func (d *frontDoor) newCaller() *webhook.Caller {
	return &webhook.Caller{Resolve: func(ns, name string, port int32) ([]string, error) {
		return webhook.Endpoints(d.read(), ns, name, port)
	}}
}

// newWebhooks returns the plugins that ask admission webhooks. A webhook that can't be asked, and blocks requests
// therefore, is told of by an event.
func (d *frontDoor) newWebhooks(authz auth.Authorizer, caller *webhook.Caller) *admissionhooks.Webhooks {
	return admissionhooks.New(admissionhooks.Config{Caller: caller, Authorize: authz, Registry: d.metrics,
		Blocked: func(k resource.Kind, cfg resource.Object, name string, err error) {
			d.events.Event(k, cfg, corev1.EventTypeWarning, "WebhookUnavailable", "Requests are refused: %v", err)
		}})
}
