// Package plugins has all of upstream's plugins of admission: beside those that any control plane needs, which are admission.General, those
// of pods, of nodes, and of what pods use.
package plugins

import (
	"slices"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/kinds/quota/devices"
)

// Default returns the plugins that are on by default.
func Default(cfg admission.Config) admission.Chain {
	return slices.DeleteFunc(All(cfg), func(p admission.Plugin) bool { return p.Off })
}

// All returns upstream's plugins in upstream's order; those that are not on by default are Off, but for NodeRestriction. Policies
// and webhooks have their places between PodResizeValidator and ResourceQuota: see Before.
func All(cfg admission.Config) admission.Chain {
	cfg = cfg.Complete()
	cfg.Count = devices.Of
	selectors, node := nodeSelectors(cfg.NodeSelectors), nodeRestriction{cfg.Authorize}
	general := map[string]admission.Plugin{} // those that a control plane without pods has too
	for _, p := range admission.General(cfg) {
		general[p.Name] = p
	}
	return admission.Chain{
		// No plugin upstream, where the kind itself knows who writes it.
		general["CertificateRequester"],
		{Name: "AlwaysAdmit", Off: true},
		{Name: "NamespaceAutoProvision", Off: true, Mutate: provision(cfg.MakeNamespace)},
		general["NamespaceLifecycle"],
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
		{Name: "PodTolerationRestriction", Off: true, Mutate: cfg.Tolerations.Mutate, Validate: cfg.Tolerations.Validate},
		{Name: "EventRateLimit", Off: true, Validate: newEventLimits(cfg.Events).validate},
		{Name: "ExtendedResourceToleration", Off: true, Mutate: tolerateExtended},
		{Name: "DefaultStorageClass", Mutate: defaultStorageClass},
		{Name: "StorageObjectInUseProtection", Mutate: protectStorage},
		general["OwnerReferencesPermissionEnforcement"],
		{Name: "PersistentVolumeClaimResize", Validate: checkResize},
		{Name: "RuntimeClass", Mutate: mutateRuntimeClass, Validate: validateRuntimeClass},
		general["CertificateApproval"],
		general["CertificateSigning"],
		general["ClusterTrustBundleAttest"],
		general["CertificateSubjectRestriction"],
		{Name: "DefaultIngressClass", Mutate: defaultIngressClass},
		{Name: "DenyServiceExternalIPs", Off: true, Validate: denyExternalIPs},
		{Name: "PodTopologyLabels", Mutate: podTopologyLabels},
		{Name: "NodeDeclaredFeatureValidator", Validate: checkPodFeatures},
		{Name: "PodResizeValidator", Validate: checkPodResize},
		// here: MutatingAdmissionPolicy, MutatingAdmissionWebhook, ValidatingAdmissionPolicy, ValidatingAdmissionWebhook
		general["ResourceQuota"],
		{Name: "AlwaysDeny", Off: true, Validate: denyAll},
	}
}
