package admission

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/kloop-dev/kloop/auth"
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

// complete returns it with what is meant where nothing is said.
func (cfg Config) complete() Config {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Suffix == nil {
		cfg.Suffix = func() string { return rand.String(5) }
	}
	return cfg
}

// Plugins returns the plugins that are on by default.
func Plugins(cfg Config) Chain {
	return slices.DeleteFunc(All(cfg), func(p Plugin) bool { return p.Off })
}

// All returns upstream's plugins in upstream's order; those that are not on by default are Off, but for NodeRestriction. Policies
// and webhooks have their places between PodResizeValidator and ResourceQuota: see Before.
func All(cfg Config) Chain {
	cfg = cfg.complete()
	sign, node := signers{cfg.Authorize}, nodeRestriction{cfg.Authorize}
	selectors, owners := nodeSelectors(cfg.NodeSelectors), ownership{cfg.Authorize, cfg.Kinds}
	return Chain{
		// No plugin upstream, where the kind itself knows who writes it.
		{Name: "CertificateRequester", Mutate: stampRequester},
		{Name: "AlwaysAdmit", Off: true},
		{Name: "NamespaceAutoProvision", Off: true, Mutate: provision(cfg.MakeNamespace)},
		{Name: "NamespaceLifecycle", Mutate: namespaceLifecycle},
		{Name: "NamespaceExists", Off: true, Validate: namespaceExists},
		{Name: "LimitPodHardAntiAffinityTopology", Off: true, Validate: hostnameOnly},
		{Name: "LimitRanger", Mutate: mutateLimits, Validate: validateLimits},
		{Name: "ServiceAccount", Mutate: accounts{cfg.Suffix}.mutate, Validate: validateServiceAccount},
		{Name: "NodeRestriction", Mutate: node.admit},
		{Name: "TaintNodesByCondition", Mutate: taintNewNodes},
		{Name: "AlwaysPullImages", Off: true, Mutate: pullAlways, Validate: checkPullAlways},
		{Name: imagePlugin, Off: true, Validate: newImages(cfg.Images, cfg.Now).validate},
		{Name: "PodSecurity", Validate: newPodSecurity(cfg.PodSecurity).validate},
		{Name: "PodNodeSelector", Off: true, Mutate: selectors.mutate, Validate: selectors.validate},
		{Name: "Priority", Mutate: mutatePriority, Validate: validatePriority},
		{Name: "DefaultTolerationSeconds", Mutate: defaultTolerationSeconds},
		{Name: "PodTolerationRestriction", Off: true, Mutate: cfg.Tolerations.mutate, Validate: cfg.Tolerations.validate},
		{Name: "EventRateLimit", Off: true, Validate: newEventLimits(cfg.Events).validate},
		{Name: "ExtendedResourceToleration", Off: true, Mutate: tolerateExtended},
		{Name: "DefaultStorageClass", Mutate: defaultStorageClass},
		{Name: "StorageObjectInUseProtection", Mutate: protectStorage},
		{Name: "OwnerReferencesPermissionEnforcement", Off: true, Validate: owners.validate},
		{Name: "PersistentVolumeClaimResize", Validate: checkResize},
		{Name: "RuntimeClass", Mutate: mutateRuntimeClass, Validate: validateRuntimeClass},
		{Name: "CertificateApproval", Validate: sign.approval},
		{Name: "CertificateSigning", Validate: sign.signing},
		{Name: "ClusterTrustBundleAttest", Validate: sign.attest},
		{Name: "CertificateSubjectRestriction", Validate: restrictSubject},
		{Name: "DefaultIngressClass", Mutate: defaultIngressClass},
		{Name: "DenyServiceExternalIPs", Off: true, Validate: denyExternalIPs},
		{Name: "PodTopologyLabels", Mutate: podTopologyLabels},
		{Name: "NodeDeclaredFeatureValidator", Validate: checkPodFeatures},
		{Name: "PodResizeValidator", Validate: checkPodResize},
		// here: MutatingAdmissionPolicy, MutatingAdmissionWebhook, ValidatingAdmissionPolicy, ValidatingAdmissionWebhook
		{Name: quotaPlugin, Validate: newQuotas(cfg).validate},
		{Name: "AlwaysDeny", Off: true, Validate: denyAll},
	}
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
