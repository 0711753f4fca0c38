// Package general has the rules that hold for objects of any kind, and those of the kinds that say how the API works: all that a control
// plane without pods needs. Packages health, causes and rests have those of pods, of what runs them, and of nodes, volumes and networks.
package general

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/kinds/apiextensions"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// Rules are all of them.
func Rules() converge.Rules {
	refusals := generalRefusals()
	return converge.Rules{
		Situations: slices.Concat(generalDeletions(), refusals, Hooks(), Servers(), Leases(), Extensions(), Operators(), Anything()),
		Refusals:   refusals, Healths: Healths(), Custom: Custom,
		Rest: func(w *converge.World, k resource.Kind, obj resource.Object) *convergence.Gap {
			return Explained(Rests(), w, k, obj)
		},
	}
}

// Healths are those of the kinds that say how the API works.
func Healths() map[schema.GroupResource]converge.Judge {
	return map[schema.GroupResource]converge.Judge{
		{Group: "coordination.k8s.io", Resource: "leases"}:                                   Of(leaseHealth),
		{Group: "apiregistration.k8s.io", Resource: "apiservices"}:                           Of(apiServiceHealth),
		{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}:               Of(definitionHealth),
		{Resource: "resourcequotas"}:                                                         Of(quotaHealth),
		{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"}: webhooksHealth,
		{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"}:   webhooksHealth,
	}
}

// Rests tell of objects of those kinds that rest on purpose.
func Rests() map[schema.GroupResource]Rule {
	return map[schema.GroupResource]Rule{
		{Resource: "resourcequotas"}:                                                           RestOf(restOfQuota),
		{Group: "rbac.authorization.k8s.io", Resource: "rolebindings"}:                         RestOf(restOfBinding),
		{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"}:                  RestOf(restOfClusterBinding),
		{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}:       RestOf(restOfPolicy),
		{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicybindings"}: RestOf(restOfPolicyBinding),
		{Group: "flowcontrol.apiserver.k8s.io", Resource: "flowschemas"}:                       RestOf(restOfFlow),
	}
}

// generalDeletions are deletions without pods, and what pods have.
func generalDeletions() []converge.Situation {
	return slices.Concat(ContainerDeletions(), DependentDeletions())
}

// ContainerDeletions are deletions of what holds other objects.
func ContainerDeletions() []converge.Situation {
	return []converge.Situation{
		{Name: "NamespaceHeld", Of: []resource.Kind{core.Namespaces}, See: Leaving(namespaceHeld)},
		{Name: "NamespaceAPIServiceDown", Of: []resource.Kind{core.Namespaces}, See: Leaving(namespaceBlind)},
		{Name: "NamespaceNotEmpty", Of: []resource.Kind{core.Namespaces}, See: Leaving(namespaceNotEmpty)},
		{Name: "FinalizerStuck", Of: []resource.Kind{core.Namespaces}, See: Leaving(namespaceFinalizer)},
		{Name: "NamespaceNotEmpty", Of: []resource.Kind{core.Namespaces}, See: Leaving(namespaceTold)},
		{Name: "InstancesRemain", Of: []resource.Kind{apiextensions.CustomResourceDefinitions}, See: Leaving(instancesRemain)},
	}
}

// DependentDeletions fit any kind, and so come after what says more.
func DependentDeletions() []converge.Situation {
	return []converge.Situation{
		{Name: "DependentsRemain", Of: nil, See: Leaving(dependentsRemain)},
		{Name: "FinalizerStuck", Of: nil, See: Leaving(finalizerStuck)},
	}
}

// generalRefusals are refusals without those of pods alone.
func generalRefusals() []converge.Situation {
	return []converge.Situation{
		{Name: "QuotaExceeded", Of: nil, See: Refused(QuotaExceeded)},
		{Name: "WebhookDown", Of: nil, See: Refused(WebhookDown)},
		{Name: "WebhookDenies", Of: nil, See: Refused(WebhookDenies)},
		{Name: "PolicyDenies", Of: nil, See: Refused(PolicyDenies)},
		{Name: "NamespaceLeaving", Of: nil, See: Refused(NamespaceLeaving)},
		{Name: "NotAllowed", Of: nil, See: Refused(NotAllowed)},
		{Name: "Invalid", Of: nil, See: Refused(Invalid)},
	}
}
