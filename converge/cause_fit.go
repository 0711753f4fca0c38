package converge

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kloop-dev/kloop/kinds"
	kloopresource "github.com/kloop-dev/kloop/resource"
)

// asksFor returns the amount of a resource that a pod's containers ask for together; init containers run one after the other, before them.
func asksFor(p *corev1.Pod, name corev1.ResourceName) resource.Quantity {
	var sum, first resource.Quantity
	for i := range p.Spec.Containers {
		sum.Add(p.Spec.Containers[i].Resources.Requests[name])
	}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		q := c.Resources.Requests[name]
		if deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways {
			sum.Add(q)
		} else if q.Cmp(first) > 0 {
			first = q
		}
	}
	if first.Cmp(sum) > 0 {
		return first
	}
	return sum
}

// keptOff says that a node takes no pod like this one, whatever room it has.
func keptOff(p *corev1.Pod, n *corev1.Node) bool {
	return n.Spec.Unschedulable || slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(p.Spec.Tolerations,
			func(o corev1.Toleration) bool { return tolerates(&o, &t) })
	})
}

// largest is the node that can give most of a resource to a pod that it does not keep off; nil when none is known.
func (l *look) largest(p *corev1.Pod, name corev1.ResourceName) (best *corev1.Node, most resource.Quantity) {
	for _, n := range kloopresource.List(l.Read, kinds.Nodes, "") {
		if keptOff(p, n) {
			continue
		}
		if q := n.Status.Allocatable[name]; best == nil || q.Cmp(most) > 0 {
			best, most = n, q
		}
	}
	return best, most
}

// size adds numbers to a pod that fits nowhere for want of a resource: what it asks for, and whether any node, were it empty, could
// give that.
func (l *look) size(f *Finding, p *corev1.Pod, name corev1.ResourceName) {
	want := asksFor(p, name)
	n, most := l.largest(p, name)
	unknown := most.IsZero() && strings.Contains(string(name), "/") // no node ever had such: another rule speaks of it
	if n == nil || want.IsZero() || unknown || p.Spec.Overhead != nil || p.Spec.Resources != nil {
		return
	}
	if want.Cmp(most) <= 0 {
		f.Says += "; it asks for " + want.String() + ", and node " + n.Name + " would have " + most.String() + " if it were empty"
		return
	}
	f.Says += "; it asks for " + want.String() + ", and the largest node, " + n.Name + ", has " + most.String() +
		": no node of this size can ever take it"
	f.Advice = []string{"lower the pod's request of " + string(name) + " to less than " + most.String() + ", or add a larger node"}
}

// unlabelled says which label of a pod's node selector no node has, and what they have in its place; "": each is had by some node.
func unlabelled(w *World, p *corev1.Pod) string {
	if !w.Sees(kinds.Nodes, "") {
		return ""
	}
	for _, key := range slices.Sorted(maps.Keys(p.Spec.NodeSelector)) {
		want, others := p.Spec.NodeSelector[key], w.nodeLabels(key)
		switch {
		case slices.Contains(others, want):
		case len(others) == 0:
			return "; no node has the label " + key
		default:
			return "; no node has " + key + "=" + want + ": they have " + list(others, 3)
		}
	}
	return ""
}

// nodeLabels are the values that nodes have of a label, sorted. They are gathered once: there may be many nodes, and many pods that ask.
func (w *World) nodeLabels(key string) []string {
	if values, is := w.labelled[key]; is {
		return values
	}
	var values []string
	for _, n := range kloopresource.List(w.Read, kinds.Nodes, "") {
		if value, is := n.Labels[key]; is {
			values = append(values, value)
		}
	}
	slices.Sort(values)
	if w.labelled == nil {
		w.labelled = map[string][]string{}
	}
	w.labelled[key] = slices.Compact(values)
	return w.labelled[key]
}
