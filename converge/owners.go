package converge

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
)

// keepers is which loop keeps the objects of a kind converged.
var controllerOf = map[schema.GroupResource]string{
	{Group: "apps", Resource: "deployments"}: "deployment", {Group: "apps", Resource: "replicasets"}: "replicaset",
	{Group: "apps", Resource: "statefulsets"}: "statefulset", {Group: "apps", Resource: "daemonsets"}: "daemonset",
	{Group: "batch", Resource: "jobs"}: "job", {Group: "batch", Resource: "cronjobs"}: "cronjob",
	{Group: "autoscaling", Resource: "horizontalpodautoscalers"}:           "horizontal-pod-autoscaler",
	{Group: "policy", Resource: "poddisruptionbudgets"}:                    "disruption",
	{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}: "definition",
	{Group: "apiregistration.k8s.io", Resource: "apiservices"}:             "apiservice",
	{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}: "csr-signing",
	{Resource: "replicationcontrollers"}:                                   "replicationcontroller", {Resource: "services"}: "endpointslice",
	{Resource: "namespaces"}: "namespace", {Resource: "nodes"}: "node-lifecycle", {Resource: "resourcequotas"}: "resource-quota",
	{Resource: "persistentvolumeclaims"}: "volume-binder", {Resource: "persistentvolumes"}: "volume-phase",
}

func ownerOf(k resource.Kind) string { return controllerOf[k.Info().GR()] }

// agentOf is whose move it is once a pod has a node.
func agentOf(p *corev1.Pod) string {
	if p.Spec.NodeName == "" {
		return "scheduler"
	}
	return "node agent on " + p.Spec.NodeName
}

// keeper seems to keep an object of a kind that no loop of ours keeps: the manager that wrote its status, or the
// one that wrote anything but people's tools.
func (l *look) keeper() string {
	if p, ok := l.obj.(*corev1.Pod); ok {
		return agentOf(p)
	}
	best := ""
	for _, m := range l.obj.GetManagedFields() {
		switch {
		case byHand(m.Manager):
		case m.Subresource == "status":
			return m.Manager
		case best == "":
			best = m.Manager
		}
	}
	if best == "" {
		return "the controller of " + l.kind.Info().Plural
	}
	return best
}

// byHand tells managers and user agents that are tools of people. Flux's helm-controller is none, as others with a tool's name.
func byHand(manager string) bool {
	if name, _, _ := strings.Cut(manager, "/"); strings.HasSuffix(name, "-controller") || strings.HasSuffix(name, "-operator") {
		return false
	}
	for _, tool := range []string{"kubectl", "helm", "Helm", "curl", "Mozilla", "k9s", "kloop-why",
		"kloop-follow", "kloop-watch", "terraform", "before-first-apply"} {
		if strings.HasPrefix(manager, tool) {
			return true
		}
	}
	return false
}
