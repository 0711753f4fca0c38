package causes

import (
	"slices"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// General are the causes without those of pods, and those of them that explain why a loop fails at an object that is as it should be.
func General() (situations, refusals []converge.Situation) {
	refusals = generalRefusals()
	return slices.Concat(generalDeletions(), refusals, hooks(), servers(), leases(), extensions(), operators(), anything()), refusals
}

// generalDeletions are deletions without pods, and what pods have.
func generalDeletions() []converge.Situation {
	return slices.Concat(containerDeletions(), dependentDeletions())
}

// containerDeletions are deletions of what holds other objects.
func containerDeletions() []converge.Situation {
	return []converge.Situation{
		{Name: "NamespaceHeld", Of: []resource.Kind{kinds.Namespaces}, See: leaving(namespaceHeld)},
		{Name: "NamespaceAPIServiceDown", Of: []resource.Kind{kinds.Namespaces}, See: leaving(namespaceBlind)},
		{Name: "NamespaceNotEmpty", Of: []resource.Kind{kinds.Namespaces}, See: leaving(namespaceNotEmpty)},
		{Name: "FinalizerStuck", Of: []resource.Kind{kinds.Namespaces}, See: leaving(namespaceFinalizer)},
		{Name: "NamespaceNotEmpty", Of: []resource.Kind{kinds.Namespaces}, See: leaving(namespaceTold)},
		{Name: "InstancesRemain", Of: []resource.Kind{kinds.CustomResourceDefinitions}, See: leaving(instancesRemain)},
	}
}

// dependentDeletions fit any kind, and so come after what says more.
func dependentDeletions() []converge.Situation {
	return []converge.Situation{
		{Name: "DependentsRemain", Of: nil, See: leaving(dependentsRemain)},
		{Name: "FinalizerStuck", Of: nil, See: leaving(finalizerStuck)},
	}
}

// generalRefusals are refusals without those of pods alone.
func generalRefusals() []converge.Situation {
	return []converge.Situation{
		{Name: "QuotaExceeded", Of: nil, See: refused(quotaExceeded)},
		{Name: "WebhookDown", Of: nil, See: refused(webhookDown)},
		{Name: "WebhookDenies", Of: nil, See: refused(webhookDenies)},
		{Name: "PolicyDenies", Of: nil, See: refused(policyDenies)},
		{Name: "NamespaceLeaving", Of: nil, See: refused(namespaceLeaving)},
		{Name: "NotAllowed", Of: nil, See: refused(notAllowed)},
		{Name: "Invalid", Of: nil, See: refused(invalid)},
	}
}
