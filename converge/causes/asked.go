package causes

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
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

// nodesAsked are the nodes that a pod asks for by labels and fields. They are sought once for all pods that ask so, or that one workload
// makes, for such wait by the thousand.
func nodesAsked(w *converge.World, p *corev1.Pod) (fits []*corev1.Node) {
	known, key, by := converge.Kept[askedNodes](w), "", metav1.GetControllerOfNoCopy(p)
	switch a := p.Spec.Affinity; {
	case a == nil || a.NodeAffinity == nil:
		key = "of " + labels.Set(p.Spec.NodeSelector).String()
	case by != nil && by.Kind != "DaemonSet":
		key = "by " + string(by.UID)
	}
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
