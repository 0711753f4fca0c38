package admission

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/kinds/quota"
	"github.com/kloop-dev/kloop/resource"
)

// Config holds what some plugins need beyond the request.
type Config struct {
	// Authorize is asked for what a caller must be allowed beside the write itself; required.
	Authorize auth.Authorizer
	// Charge stores the status of a quota if nobody has changed the quota since q's resourceVersion, else it
	// returns a Conflict; it returns the stored quota. nil: quotas are not enforced.
	Charge func(ctx context.Context, q *corev1.ResourceQuota) (*corev1.ResourceQuota, error)
	Now    func() time.Time // nil: time.Now
	// Suffix ends the name of the volume that a pod gets for its token; nil: by chance. A simulation that is to replay exactly sets it.
	Suffix func() string
	// MakeNamespace makes a namespace, for NamespaceAutoProvision; nil: it makes none.
	MakeNamespace func(ctx context.Context, name string) error
	Count         quota.Counter // counts for quotas what package quota does not know; nil: nothing does
	Kinds         *resource.Set // that owners may be of, for OwnerReferencesPermissionEnforcement
	Settings
}

// Settings are the parts of an AdmissionConfiguration that concern plugins.
type Settings struct {
	PodSecurity   PodSecurity       // what namespaces without labels are held to, and what is exempt
	Limited       []LimitedResource // what can't be had without a quota that covers it
	Events        []EventLimit
	Tolerations   TolerationRules
	NodeSelectors map[string]string
	Images        *ImagePolicy // nil: there is no server that judges images
}

// Complete returns it with what is meant where nothing is said.
func (cfg Config) Complete() Config {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Suffix == nil {
		cfg.Suffix = func() string { return rand.String(5) }
	}
	return cfg
}

// quotaPlugin is last: it charges only what all others have let through.
const quotaPlugin = "ResourceQuota"

// Before returns the chain with further plugins in front of the quota plugin: the places of policies and
// webhooks.
func (c Chain) Before(more ...Plugin) Chain {
	out := make(Chain, 0, len(c)+len(more))
	for _, p := range c {
		if p.Name == quotaPlugin {
			out = append(out, more...)
			more = nil
		}
		out = append(out, p)
	}
	return append(out, more...)
}
