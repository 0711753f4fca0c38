package rests

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/causes"
	"github.com/kloop-dev/kloop/converge/health"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/resource"
)

// General explains an object of those kinds that rests on purpose.
func General(w *converge.World, k resource.Kind, obj resource.Object) *convergence.Gap {
	return explained(map[schema.GroupResource]rule{
		{Resource: "resourcequotas"}:                                                           restOf(restOfQuota),
		{Group: "rbac.authorization.k8s.io", Resource: "rolebindings"}:                         restOf(restOfBinding),
		{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"}:                  restOf(restOfClusterBinding),
		{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}:       restOf(restOfPolicy),
		{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicybindings"}: restOf(restOfPolicyBinding),
		{Group: "flowcontrol.apiserver.k8s.io", Resource: "flowschemas"}:                       restOf(restOfFlow),
	}, w, k, obj)
}

// All explains objects of all kinds that rest on purpose.
func All(w *converge.World, k resource.Kind, obj resource.Object) *convergence.Gap {
	return explained(rules(), w, k, obj)
}

// rules are those of kinds that can rest on purpose.
func rules() map[schema.GroupResource]rule {
	return map[schema.GroupResource]rule{
		{Group: "apps", Resource: "deployments"}:                                               restOf(restOfDeployment),
		{Group: "apps", Resource: "replicasets"}:                                               restOf(restOfReplicaSet),
		{Group: "apps", Resource: "statefulsets"}:                                              restOf(restOfStatefulSet),
		{Group: "apps", Resource: "daemonsets"}:                                                restOf(restOfDaemonSet),
		{Group: "batch", Resource: "jobs"}:                                                     restOf(restOfJob),
		{Group: "batch", Resource: "cronjobs"}:                                                 restOf(restOfCronJob),
		{Group: "autoscaling", Resource: "horizontalpodautoscalers"}:                           restOf(restOfAutoscaler),
		{Group: "policy", Resource: "poddisruptionbudgets"}:                                    restOf(restOfBudget),
		{Group: "networking.k8s.io", Resource: "ingresses"}:                                    restOf(restOfIngress),
		{Resource: "nodes"}:                                                                    restOf(restOfNode),
		{Resource: "pods"}:                                                                     restOf(restOfPod),
		{Resource: "services"}:                                                                 restOf(health.RestOfService),
		{Resource: "persistentvolumeclaims"}:                                                   restOf(restOfClaim),
		{Group: "discovery.k8s.io", Resource: "endpointslices"}:                                restOf(restOfSlice),
		{Group: "resource.k8s.io", Resource: "resourceclaims"}:                                 restOf(causes.RestOfDevices),
		{Resource: "persistentvolumes"}:                                                        restOf(restOfVolume),
		{Resource: "serviceaccounts"}:                                                          restOf(restOfAccount),
		{Resource: "resourcequotas"}:                                                           restOf(restOfQuota),
		{Group: "rbac.authorization.k8s.io", Resource: "rolebindings"}:                         restOf(restOfBinding),
		{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"}:                  restOf(restOfClusterBinding),
		{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}:       restOf(restOfPolicy),
		{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicybindings"}: restOf(restOfPolicyBinding),
		{Group: "flowcontrol.apiserver.k8s.io", Resource: "flowschemas"}:                       restOf(restOfFlow),
	}
}
