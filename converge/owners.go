package converge

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
)

// KindOf is the kind that a version of a kind belongs to.
func (w *World) KindOf(gvk schema.GroupVersionKind) (resource.Kind, bool) {
	if k, ok := w.Kinds.Kind(gvk); ok {
		return k, true
	}
	return w.Kinds.GroupKind(gvk.GroupKind())
}

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
	{Resource: "replicationcontrollers"}:                                   "replicationcontroller",
	{Resource: "services"}:                                                 "endpointslice",
	{Resource: "namespaces"}:                                               "namespace", {Resource: "nodes"}: "node-lifecycle",
	{Resource: "resourcequotas"}:         "resource-quota",
	{Resource: "persistentvolumeclaims"}: "volume-binder", {Resource: "persistentvolumes"}: "volume-phase",
}

// OwnerOf is the loop that keeps objects of a kind converged; "": none of ours does.
func OwnerOf(k resource.Kind) string { return controllerOf[k.Info().GR()] }

// AgentOf is whose move it is once a pod has a node.
func AgentOf(p *corev1.Pod) string {
	if p.Spec.NodeName == "" {
		return "scheduler"
	}
	return "node agent on " + p.Spec.NodeName
}

// Keeper seems to keep an object of a kind that no loop of ours keeps: the manager that wrote its status, or the
// one that wrote anything but people's tools.
func (l *Look) Keeper() string {
	if p, ok := l.Obj.(*corev1.Pod); ok {
		return AgentOf(p)
	}
	best := ""
	for _, m := range l.Obj.GetManagedFields() {
		switch {
		case ByHand(m.Manager):
		case m.Subresource == "status":
			return m.Manager
		case best == "":
			best = m.Manager
		}
	}
	if best == "" {
		return "the controller of " + l.Kind.Info().Plural
	}
	return best
}

// ByHand tells managers and user agents that are tools of people. Flux's helm-controller is none, as others with a tool's name.
func ByHand(manager string) bool {
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
