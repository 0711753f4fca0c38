package cluster

import (
	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/admission/policy"
	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/webhook"
)

// extensions are the plugins that do what users say, in upstream's order: policies, then webhooks; first those that
// change requests.
func (d *frontDoor) extensions(authz auth.Authorizer, caller *webhook.Caller) []admission.Plugin {
	policies := policy.New(policy.Config{Kinds: d.set, Authorize: authz, Overlay: d.fields.Overlay})
	hooks := d.newWebhooks(authz, caller)
	return []admission.Plugin{policies.Mutating(), hooks.Mutating(), policies.Validating(), hooks.Validating()}
}
