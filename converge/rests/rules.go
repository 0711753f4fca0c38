package rests

import (
	"maps"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/causes"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/resource"
)

// All explains objects of all kinds that rest on purpose.
func All(w *converge.World, k resource.Kind, obj resource.Object) *convergence.Gap {
	return general.Explained(rules(), w, k, obj)
}

// rules are those of kinds that can rest on purpose, the general ones among them.
func rules() map[schema.GroupResource]general.Rule {
	all := map[schema.GroupResource]general.Rule{
		{Group: "apps", Resource: "deployments"}:                     general.RestOf(restOfDeployment),
		{Group: "apps", Resource: "replicasets"}:                     general.RestOf(restOfReplicaSet),
		{Group: "apps", Resource: "statefulsets"}:                    general.RestOf(restOfStatefulSet),
		{Group: "apps", Resource: "daemonsets"}:                      general.RestOf(restOfDaemonSet),
		{Group: "batch", Resource: "jobs"}:                           general.RestOf(restOfJob),
		{Group: "batch", Resource: "cronjobs"}:                       general.RestOf(restOfCronJob),
		{Group: "autoscaling", Resource: "horizontalpodautoscalers"}: general.RestOf(restOfAutoscaler),
		{Group: "policy", Resource: "poddisruptionbudgets"}:          general.RestOf(restOfBudget),
		{Group: "networking.k8s.io", Resource: "ingresses"}:          general.RestOf(restOfIngress),
		{Resource: "nodes"}:                                          general.RestOf(restOfNode),
		{Resource: "pods"}:                                           general.RestOf(restOfPod),
		{Resource: "services"}:                                       general.RestOf(general.RestOfService),
		{Resource: "persistentvolumeclaims"}:                         general.RestOf(restOfClaim),
		{Group: "discovery.k8s.io", Resource: "endpointslices"}:      general.RestOf(restOfSlice),
		{Group: "resource.k8s.io", Resource: "resourceclaims"}:       general.RestOf(causes.RestOfDevices),
		{Resource: "persistentvolumes"}:                              general.RestOf(restOfVolume),
		{Resource: "serviceaccounts"}:                                general.RestOf(restOfAccount),
	}
	maps.Copy(all, general.Rests())
	return all
}
