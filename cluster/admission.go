package cluster

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/admission/config"
	"github.com/kloop-dev/kloop/admission/policy"
	admissionhooks "github.com/kloop-dev/kloop/admission/webhook"
	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/webhook"
)

// errNoAdmission is of programs that were not given kit.Kit.Plugins.
var errNoAdmission = errors.New("this program has no plugins of admission (cluster.Config.Kit)")

// admission are the plugins that are on: the built-in ones, and before the last of them those that do what users say, in
// upstream's order: policies, then webhooks; first those that change requests.
func (d *frontDoor) admission(authz auth.Authorizer) (admission.Chain, error) {
	if d.c.cfg.Kit.Plugins == nil {
		return nil, errNoAdmission
	}
	told, err := config.Read(d.c.cfg.Kit.Ways, d.c.cfg.AdmissionConfig)
	if err != nil {
		return nil, err
	}
	own := func() client.Client { // the server is not there yet
		return d.local(&auth.User{Name: "system:apiserver", Groups: []string{auth.GroupMasters}}, "kube-apiserver")
	}
	builtin := d.c.cfg.Kit.Plugins(admission.Config{Authorize: authz, Settings: told.Settings, Kinds: d.set,
		Charge: func(ctx context.Context, q *corev1.ResourceQuota) (*corev1.ResourceQuota, error) {
			return client.UpdateStatus(ctx, own(), core.ResourceQuotas, q) // the quota plugin's compare-and-swap
		},
		MakeNamespace: func(ctx context.Context, name string) error {
			_, err := own().Create(ctx, core.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
			return err
		}})
	policies := policy.New(policy.Config{Kinds: d.set, Authorize: authz, Overlay: d.fields.Overlay})
	hooks := admissionhooks.New(admissionhooks.Config{Mutating: d.callerAs(told.Mutating), Validating: d.callerAs(told.Validating),
		Authorize: authz, Registry: d.metrics, Blocked: d.blocked})
	chain, err := d.c.cfg.plugins(builtin.Before(policies.Mutating(), hooks.Mutating(), policies.Validating(), hooks.Validating()))
	return append(chain, d.c.cfg.Kit.Admission...), err
}

// blocked tells by an event of a webhook that can't be asked, and blocks requests therefore.
func (d *frontDoor) blocked(k resource.Kind, cfg resource.Object, _ string, err error) {
	d.events.Event(k, cfg, corev1.EventTypeWarning, "WebhookUnavailable", "Requests are refused: %v", err)
}

// callerAs returns what calls webhooks and says who calls; nil: the caller that says nothing, which conversion has too.
func (d *frontDoor) callerAs(who webhook.Logins) *webhook.Caller {
	if who == nil {
		return d.caller
	}
	c := d.newCaller()
	c.Login = who.Login
	return c
}

// newCaller returns what calls webhooks, by URL or through the endpoints of a service.
func (d *frontDoor) newCaller() *webhook.Caller {
	return &webhook.Caller{Resolve: func(ns, name string, port int32) ([]string, error) {
		return webhook.Endpoints(d.read(), ns, name, port)
	}}
}
