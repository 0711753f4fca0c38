package health

import (
	"maps"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
)

// All are those of kinds with rules of their own, the general ones among them.
func All() map[schema.GroupResource]converge.Judge {
	all := map[schema.GroupResource]converge.Judge{
		{Group: "apps", Resource: "deployments"}:                               general.Of(deployments().health),
		{Group: "apps", Resource: "replicasets"}:                               general.Of(replicaSets().health),
		{Group: "apps", Resource: "statefulsets"}:                              general.Of(statefulSets().health),
		{Group: "apps", Resource: "daemonsets"}:                                general.Of(daemonSets().health),
		{Group: "batch", Resource: "jobs"}:                                     general.Of(jobHealth),
		{Group: "batch", Resource: "cronjobs"}:                                 general.Of(cronJobHealth),
		{Group: "policy", Resource: "poddisruptionbudgets"}:                    general.Of(budgetHealth),
		{Group: "networking.k8s.io", Resource: "ingresses"}:                    general.Of(ingressHealth),
		{Group: "autoscaling", Resource: "horizontalpodautoscalers"}:           general.Of(autoscalerHealth),
		{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}: general.Of(csrHealth),
		{Resource: "replicationcontrollers"}:                                   general.Of(replicationControllers().health),
		{Resource: "pods"}:                                                     general.Of(podHealth),
		{Resource: "configmaps"}:                                               general.Of(configMapHealth),
		{Resource: "persistentvolumeclaims"}:                                   general.Of(claimHealth),
		{Resource: "persistentvolumes"}:                                        general.Of(volumeHealth),
		{Group: "storage.k8s.io", Resource: "volumeattachments"}:               general.Of(attachmentHealth),
		{Resource: "nodes"}:                                                    general.Of(nodeHealth),
		{Resource: "services"}:                                                 general.Of(general.ServiceHealth),
	}
	maps.Copy(all, general.Healths())
	return all
}
