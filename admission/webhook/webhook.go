// Package webhook asks admission webhooks: the servers that MutatingWebhookConfigurations and
// ValidatingWebhookConfigurations name. What a webhook matches, what it is sent, what its answer may say and what
// happens when there is none are upstream's (KEP-492 and the API's documentation).
//
// Configurations are compiled when they change. A request that no webhook matches costs a walk over the rules; in a
// cluster without configurations it costs nothing.
package webhook

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/kinds/admissionregistration"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/webhook"
)

// The plugins' names, which are upstream's.
const (
	MutatingName   = "MutatingAdmissionWebhook"
	ValidatingName = "ValidatingAdmissionWebhook"
)

// Config holds what webhooks need beyond the request.
type Config struct {
	Mutating, Validating *webhook.Caller // make the connections; required, and may be the same
	// Authorize answers match conditions that ask for permissions; nil: nobody does.
	Authorize auth.Authorizer
	// Blocked hears of a request that was refused because a webhook could not be called. cfg is the webhook's
	// configuration. It must not block; nil: nobody does.
	Blocked func(k resource.Kind, cfg resource.Object, name string, err error)
	// Instead, if set, hears of each webhook that a request would be put to, by its configuration's name and its own, and the
	// request goes on as if the webhook had let it pass as it is: nothing is called. It may be called by several goroutines at once.
	Instead func(config, name string)
	// Registry gets the metrics; nil: they are counted for nobody.
	Registry *prometheus.Registry
}

// Webhooks asks webhooks. Safe for concurrent use.
type Webhooks struct {
	cfg                  Config
	mutating, validating source
	meter                *meter
}

// New returns the plugins' state. It starts nothing.
func New(cfg Config) *Webhooks {
	w := &Webhooks{cfg: cfg, meter: newMeter(cfg.Registry)}
	w.mutating = source{kind: admissionregistration.MutatingWebhookConfigurations, compile: mutatingHooks}
	w.validating = source{kind: admissionregistration.ValidatingWebhookConfigurations, compile: validatingHooks}
	return w
}

// Mutating is the plugin that asks mutating webhooks.
func (w *Webhooks) Mutating() admission.Plugin {
	return admission.Plugin{Name: MutatingName, Mutate: w.mutate}
}

// Validating is the plugin that asks validating webhooks.
func (w *Webhooks) Validating() admission.Plugin {
	return admission.Plugin{Name: ValidatingName, Validate: w.validate}
}
