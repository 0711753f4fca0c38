package converge

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/resource"
)

// Rules are the knowledge of kinds. The zero value knows only what holds for objects of all kinds. A program links the rules
// that it names: no variable holds them all.
type Rules struct {
	situations []Situation // the most telling first: of several that hold for an object, the first is shown
	refusals   []Situation // those of them that explain an object that is as it should be though its loop fails
	healths    map[schema.GroupResource]health
	// custom judges objects of kinds that users defined, which healths does not have.
	custom func(w *World, k resource.Kind, obj resource.Object, tree map[string]any) Health
	// rest explains an object that rests on purpose.
	rest func(w *World, k resource.Kind, obj resource.Object) *convergence.Gap
}

// All are the rules of all kinds of Kubernetes, and of what users define.
func All() Rules {
	r := Rules{healths: allHealths(), custom: customOnce, rest: allRests}
	r.situations, r.refusals = allCauses()
	return r
}

// allCauses are the causes of objects of all kinds, the most telling first, and those of them that explain why a loop fails at an object
// that is as it should be.
func allCauses() (situations, refused []Situation) {
	refused = refusals()
	return slices.Concat(devices(), deletions(), refused, nodes(), scheduling(), images(), kills(), containers(), volumes(), probes(),
		flapping(), resizes(), pods(), budgets(), claims(), rollouts(), jobs(), crons(), latents(), balancers(), services(), ingresses(),
		autoscalers(), certificates(), servers(), leases(), extensions(), names(), operators(), anything()), refused
}

// allHealths are those of kinds with rules of their own.
func allHealths() map[schema.GroupResource]health {
	return map[schema.GroupResource]health{
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

// allRests explains objects of all kinds that rest on purpose.
func allRests(w *World, k resource.Kind, obj resource.Object) *convergence.Gap {
	return restExplained(restsOf(), w, k, obj)
}

// restsOf are those of kinds that can rest on purpose.
func restsOf() map[schema.GroupResource]rest {
	return map[schema.GroupResource]rest{
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
		{Resource: "services"}:                                                                 restOf(restOfService),
		{Resource: "persistentvolumeclaims"}:                                                   restOf(restOfClaim),
		{Group: "discovery.k8s.io", Resource: "endpointslices"}:                                restOf(restOfSlice),
		{Group: "resource.k8s.io", Resource: "resourceclaims"}:                                 restOf(restOfDevices),
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
