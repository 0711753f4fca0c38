package health

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/converge"
)

// General are the healths of the kinds that say how the API works.
func General() map[schema.GroupResource]converge.Judge {
	return map[schema.GroupResource]converge.Judge{
		{Group: "coordination.k8s.io", Resource: "leases"}:                                   of(leaseHealth),
		{Group: "apiregistration.k8s.io", Resource: "apiservices"}:                           of(apiServiceHealth),
		{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}:               of(definitionHealth),
		{Resource: "resourcequotas"}:                                                         of(quotaHealth),
		{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"}: webhooksHealth,
		{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"}:   webhooksHealth,
	}
}

// All are those of kinds with rules of their own.
func All() map[schema.GroupResource]converge.Judge {
	return map[schema.GroupResource]converge.Judge{
		{Group: "apps", Resource: "deployments"}:                                             of(deployments().health),
		{Group: "apps", Resource: "replicasets"}:                                             of(replicaSets().health),
		{Group: "apps", Resource: "statefulsets"}:                                            of(statefulSets().health),
		{Group: "apps", Resource: "daemonsets"}:                                              of(daemonSets().health),
		{Group: "batch", Resource: "jobs"}:                                                   of(jobHealth),
		{Group: "batch", Resource: "cronjobs"}:                                               of(cronJobHealth),
		{Group: "policy", Resource: "poddisruptionbudgets"}:                                  of(budgetHealth),
		{Group: "networking.k8s.io", Resource: "ingresses"}:                                  of(ingressHealth),
		{Group: "autoscaling", Resource: "horizontalpodautoscalers"}:                         of(autoscalerHealth),
		{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}:               of(csrHealth),
		{Group: "coordination.k8s.io", Resource: "leases"}:                                   of(leaseHealth),
		{Group: "apiregistration.k8s.io", Resource: "apiservices"}:                           of(apiServiceHealth),
		{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}:               of(definitionHealth),
		{Resource: "replicationcontrollers"}:                                                 of(replicationControllers().health),
		{Resource: "pods"}:                                                                   of(podHealth),
		{Resource: "configmaps"}:                                                             of(configMapHealth),
		{Resource: "services"}:                                                               of(serviceHealth),
		{Resource: "persistentvolumeclaims"}:                                                 of(claimHealth),
		{Resource: "persistentvolumes"}:                                                      of(volumeHealth),
		{Group: "storage.k8s.io", Resource: "volumeattachments"}:                             of(attachmentHealth),
		{Resource: "nodes"}:                                                                  of(nodeHealth),
		{Resource: "resourcequotas"}:                                                         of(quotaHealth),
		{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"}: webhooksHealth,
		{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"}:   webhooksHealth,
	}
}
