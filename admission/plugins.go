package admission

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/auth"
)

// Config holds what some plugins need beyond the request.
type Config struct {
	// Authorize is asked for what a caller must be allowed beside the write itself; required.
	Authorize auth.Authorizer
	// Charge stores the status of a quota if nobody has changed the quota since q's resourceVersion, else it
	// returns a Conflict; it returns the stored quota. nil: quotas are not enforced.
	Charge func(ctx context.Context, q *corev1.ResourceQuota) (*corev1.ResourceQuota, error)
	Now    func() time.Time // nil: time.Now
	// PodSecurity is what namespaces without labels are held to, and what is exempt.
	PodSecurity PodSecurity
}

// Plugins returns upstream's default plugins in upstream's order, with NodeRestriction. Policies and webhooks
// have their places between PodTopologyLabels and ResourceQuota: see Before.
func Plugins(cfg Config) Chain {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	sign, node := signers{cfg.Authorize}, nodeRestriction{cfg.Authorize}
	return Chain{
		// No plugin upstream, where the kind itself knows who writes it.
		{Name: "CertificateRequester", Mutate: stampRequester},
		{Name: "NamespaceLifecycle", Mutate: namespaceLifecycle},
		{Name: "LimitRanger", Mutate: mutateLimits, Validate: validateLimits},
		{Name: "ServiceAccount", Mutate: mutateServiceAccount, Validate: validateServiceAccount},
		{Name: "NodeRestriction", Mutate: node.admit},
		{Name: "TaintNodesByCondition", Mutate: taintNewNodes},
		{Name: "PodSecurity", Validate: newPodSecurity(cfg.PodSecurity).validate},
		{Name: "Priority", Mutate: mutatePriority, Validate: validatePriority},
		{Name: "DefaultTolerationSeconds", Mutate: defaultTolerationSeconds},
		{Name: "DefaultStorageClass", Mutate: defaultStorageClass},
		{Name: "StorageObjectInUseProtection", Mutate: protectStorage},
		{Name: "PersistentVolumeClaimResize", Validate: checkResize},
		{Name: "RuntimeClass", Mutate: mutateRuntimeClass, Validate: validateRuntimeClass},
		{Name: "CertificateApproval", Validate: sign.approval},
		{Name: "CertificateSigning", Validate: sign.signing},
		{Name: "ClusterTrustBundleAttest", Validate: sign.attest},
		{Name: "CertificateSubjectRestriction", Validate: restrictSubject},
		{Name: "DefaultIngressClass", Mutate: defaultIngressClass},
		{Name: "PodTopologyLabels", Mutate: podTopologyLabels},
		// here: MutatingAdmissionPolicy, MutatingAdmissionWebhook, ValidatingAdmissionPolicy, ValidatingAdmissionWebhook
		{Name: quotaPlugin, Validate: newQuotas(cfg).validate},
	}
}

// quotaPlugin is last: what it charges is what all others have let through.
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
