package converge

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/resource"
)

// General are the rules of a control plane without pods: of what users define, and of the kinds that say how the API works.
func General() Rules {
	r := Rules{healths: generalHealths(), custom: customOnce, rest: generalRests}
	r.situations, r.refusals = generalCauses()
	return r
}

// generalHealths are the healths of the kinds that say how the API works.
func generalHealths() map[schema.GroupResource]health {
	return map[schema.GroupResource]health{
		{Group: "coordination.k8s.io", Resource: "leases"}:                                   of(leaseHealth),
		{Group: "apiregistration.k8s.io", Resource: "apiservices"}:                           of(apiServiceHealth),
		{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}:               of(definitionHealth),
		{Resource: "resourcequotas"}:                                                         of(quotaHealth),
		{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"}: webhooksHealth,
		{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"}:   webhooksHealth,
	}
}

// generalRests explains an object of those kinds that rests on purpose.
func generalRests(w *World, k resource.Kind, obj resource.Object) *convergence.Gap {
	return restExplained(map[schema.GroupResource]rest{
		{Resource: "resourcequotas"}:                                                           restOf(restOfQuota),
		{Group: "rbac.authorization.k8s.io", Resource: "rolebindings"}:                         restOf(restOfBinding),
		{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"}:                  restOf(restOfClusterBinding),
		{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}:       restOf(restOfPolicy),
		{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicybindings"}: restOf(restOfPolicyBinding),
		{Group: "flowcontrol.apiserver.k8s.io", Resource: "flowschemas"}:                       restOf(restOfFlow),
	}, w, k, obj)
}

// generalCauses are the causes without those of pods, and those of them that explain why a loop fails at an object that is as it should be.
func generalCauses() (situations, refusals []Situation) {
	refusals = generalRefusals()
	return slices.Concat(generalDeletions(), refusals, hooks(), servers(), leases(), extensions(), operators(), anything()), refusals
}

// generalDeletions are deletions without pods, and what pods have.
func generalDeletions() []Situation { return slices.Concat(containerDeletions(), dependentDeletions()) }

// containerDeletions are deletions of what holds other objects.
func containerDeletions() []Situation {
	return []Situation{
		{"NamespaceHeld", []resource.Kind{kinds.Namespaces}, leaving(namespaceHeld)},
		{"NamespaceAPIServiceDown", []resource.Kind{kinds.Namespaces}, leaving(namespaceBlind)},
		{"NamespaceNotEmpty", []resource.Kind{kinds.Namespaces}, leaving(namespaceNotEmpty)},
		{"FinalizerStuck", []resource.Kind{kinds.Namespaces}, leaving(namespaceFinalizer)},
		{"NamespaceNotEmpty", []resource.Kind{kinds.Namespaces}, leaving(namespaceTold)},
		{"InstancesRemain", []resource.Kind{kinds.CustomResourceDefinitions}, leaving(instancesRemain)},
	}
}

// dependentDeletions fit any kind, and so come after what says more.
func dependentDeletions() []Situation {
	return []Situation{
		{"DependentsRemain", nil, leaving(dependentsRemain)},
		{"FinalizerStuck", nil, leaving(finalizerStuck)},
	}
}

// generalRefusals are refusals without those of pods alone.
func generalRefusals() []Situation {
	return []Situation{
		{"QuotaExceeded", nil, refused(quotaExceeded)},
		{"WebhookDown", nil, refused(webhookDown)},
		{"WebhookDenies", nil, refused(webhookDenies)},
		{"PolicyDenies", nil, refused(policyDenies)},
		{"NamespaceLeaving", nil, refused(namespaceLeaving)},
		{"NotAllowed", nil, refused(notAllowed)},
		{"Invalid", nil, refused(invalid)},
	}
}
