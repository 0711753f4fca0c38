package plugins

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// podTopologyLabels copies where a node is to the pods that are bound to it.
func podTopologyLabels(_ context.Context, r *admission.Request) error {
	var target string
	switch o := r.Object.(type) {
	case *corev1.Binding:
		if r.Op != admission.Create || !r.Of("", "pods") && !r.Of("", "bindings") || o.Target.Kind != "" && o.Target.Kind != "Node" {
			return nil
		}
		target = o.Target.Name
	case *corev1.Pod:
		if !r.On("", "pods", admission.Create) || o.Spec.NodeName == "" {
			return nil
		}
		target = o.Spec.NodeName
	default:
		return nil
	}
	node := resource.Get(r.Read, core.Nodes, "", target)
	if node == nil {
		return nil
	}
	labels := r.Object.GetLabels()
	for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion} {
		value, ok := node.Labels[key]
		if !ok {
			continue
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = value
	}
	r.Object.SetLabels(labels)
	return nil
}
