package core

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
)

// What stands here of kinds that need nodes suffices to find and read their objects: a control plane without nodes does no more with them,
// and links no more. Package pods completes them with defaults, rules and columns.

// Pods are the kind without its rules.
var Pods = &resource.Def[*corev1.Pod]{
	GVK: gvk("Pod"), Plural: "pods", Short: []string{"po"}, Categories: []string{"all"}, Namespaced: true, Status: true,
	Connect: []resource.SubInfo{
		{Name: "attach", GVK: gvk("PodAttachOptions"), Verbs: doStream},
		{Name: "binding", GVK: gvk("Binding"), Verbs: doCreate},
		{Name: "eviction", GVK: schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "Eviction"}, Verbs: doCreate},
		{Name: "exec", GVK: gvk("PodExecOptions"), Verbs: doStream},
		{Name: "log", Verbs: doGet},
		{Name: "portforward", GVK: gvk("PodPortForwardOptions"), Verbs: doStream},
		{Name: "proxy", GVK: gvk("PodProxyOptions"), Verbs: doAll},
	},
	Select: []resource.Field[*corev1.Pod]{
		{Label: "spec.nodeName", Value: func(p *corev1.Pod) string { return p.Spec.NodeName }, Index: true},
		{Label: "spec.host", Value: func(p *corev1.Pod) string { return p.Spec.NodeName }}, // its first name
		{Label: "spec.restartPolicy", Value: func(p *corev1.Pod) string { return string(p.Spec.RestartPolicy) }},
		{Label: "spec.schedulerName", Value: func(p *corev1.Pod) string { return p.Spec.SchedulerName }},
		{Label: "spec.serviceAccountName", Value: func(p *corev1.Pod) string { return p.Spec.ServiceAccountName }},
		{Label: "spec.hostNetwork", Value: func(p *corev1.Pod) string { return strconv.FormatBool(p.Spec.HostNetwork) }},
		{Label: "status.phase", Value: func(p *corev1.Pod) string { return string(p.Status.Phase) }},
		{Label: "status.podIP", Value: func(p *corev1.Pod) string { return FirstIP(p) }},
		{Label: "status.podIPs", Value: func(*corev1.Pod) string { return "" }}, // a label that upstream takes and never fills
		{Label: "status.nominatedNodeName", Value: func(p *corev1.Pod) string { return p.Status.NominatedNodeName }},
	},
}

// FirstIP is a pod's address of the family that comes first, "" for none.
func FirstIP(p *corev1.Pod) string {
	if len(p.Status.PodIPs) > 0 {
		return p.Status.PodIPs[0].IP
	}
	return p.Status.PodIP
}

// Terminal says whether a pod has reached a phase that it does not leave: it succeeded, or it failed.
func Terminal(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// Nodes are the kind without its rules.
var Nodes = &resource.Def[*corev1.Node]{
	GVK: gvk("Node"), Plural: "nodes", Short: []string{"no"}, Storage: "minions", Status: true,
	Connect: []resource.SubInfo{{Name: "proxy", GVK: gvk("NodeProxyOptions"), Verbs: doAll}},
	Select: []resource.Field[*corev1.Node]{
		{Label: "spec.unschedulable", Value: func(n *corev1.Node) string { return strconv.FormatBool(n.Spec.Unschedulable) }},
	},
}

// PodTemplates are the kind without its rules.
var PodTemplates = &resource.Def[*corev1.PodTemplate]{GVK: gvk("PodTemplate"), Plural: "podtemplates", Namespaced: true}

// ReplicationControllers are the kind without its rules.
var ReplicationControllers = &resource.Def[*corev1.ReplicationController]{
	GVK: gvk("ReplicationController"), Plural: "replicationcontrollers", Short: []string{"rc"}, Categories: []string{"all"},
	Namespaced: true, Storage: "controllers", Status: true,
	Select: []resource.Field[*corev1.ReplicationController]{
		{Label: "status.replicas", Value: func(c *corev1.ReplicationController) string {
			return strconv.Itoa(int(c.Status.Replicas))
		}},
	},
}

// PersistentVolumes are the kind without its rules.
var PersistentVolumes = &resource.Def[*corev1.PersistentVolume]{
	GVK: gvk("PersistentVolume"), Plural: "persistentvolumes", Short: []string{"pv"}, Status: true,
}

// PersistentVolumeClaims are the kind without its rules.
var PersistentVolumeClaims = &resource.Def[*corev1.PersistentVolumeClaim]{
	GVK: gvk("PersistentVolumeClaim"), Plural: "persistentvolumeclaims", Short: []string{"pvc"}, Namespaced: true, Status: true,
}

// FakeNode is the annotation that makes a node a simulated one; its value is "fake". It is kwok's.
const FakeNode = "kwok.x-k8s.io/node"

// Simulated says whether a node, and so each of its pods, lives in simulation: nobody answers at their addresses.
func Simulated(n *corev1.Node) bool { return n != nil && n.Annotations[FakeNode] == "fake" }
