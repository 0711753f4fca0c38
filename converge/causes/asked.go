package causes

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// askedNodes are the nodes that pods ask for, by what they ask, and all nodes.
type askedNodes struct {
	by  map[string][]*corev1.Node
	all []*corev1.Node
}

// asking is a key that pods share which ask for the same nodes: they ask so by labels alone, or one template has made them. What operators
// make may ask for other nodes each, as may those of a DaemonSet; "" then.
func asking(p *corev1.Pod) string {
	if a := p.Spec.Affinity; a == nil || a.NodeAffinity == nil {
		return "of " + labels.Set(p.Spec.NodeSelector).String()
	}
	by := metav1.GetControllerOfNoCopy(p)
	if by == nil {
		return ""
	}
	switch schema.FromAPIVersionAndKind(by.APIVersion, by.Kind).GroupKind() {
	case kinds.ReplicaSets.GVK.GroupKind(), kinds.Jobs.GVK.GroupKind(), kinds.ReplicationControllers.GVK.GroupKind(),
		kinds.StatefulSets.GVK.GroupKind():
		return "by " + string(by.UID) + " " + p.Labels[appsv1.ControllerRevisionHashLabelKey]
	}
	return ""
}

// nodesAsked are the nodes that a pod asks for by labels and fields. They are sought once for all pods that ask so, for such wait by the
// thousand.
func nodesAsked(w *converge.World, p *corev1.Pod) (fits []*corev1.Node) {
	known, key := converge.Kept[askedNodes](w), asking(p)
	if fits, is := known.by[key]; is && key != "" {
		return fits
	}
	if known.by == nil {
		known.by, known.all = map[string][]*corev1.Node{}, resource.List(w.Read, kinds.Nodes, "")
	}
	want := nodeaffinity.GetRequiredNodeAffinity(p)
	for _, n := range known.all {
		if ok, err := want.Match(n); err == nil && ok {
			fits = append(fits, n)
		}
	}
	known.by[key] = fits
	return fits
}
