// Package metrics declares the kinds by which the cluster tells what nodes and pods use: those that `kubectl top` and
// autoscalers read (API metrics.k8s.io). They are virtual: the answer is computed when somebody asks.
package metrics

import (
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/kloop-dev/kloop/resource"
)

var readOnly = []string{"get", "list"}

// Nodes declares the kind.
var Nodes = &resource.Def[*metricsv1beta1.NodeMetrics]{
	GVK: metricsv1beta1.SchemeGroupVersion.WithKind("NodeMetrics"), Plural: "nodes", Singular: "nodemetrics",
	Virtual: true, JSON: true, Verbs: readOnly,
	Columns: []resource.Column[*metricsv1beta1.NodeMetrics]{
		resource.Col("CPU", "string", func(n *metricsv1beta1.NodeMetrics) any { return n.Usage.Cpu().String() }),
		resource.Col("Memory", "string", func(n *metricsv1beta1.NodeMetrics) any { return n.Usage.Memory().String() }),
		resource.Col("Window", "string", func(n *metricsv1beta1.NodeMetrics) any { return n.Window.Duration.String() }),
	},
}

// Pods declares the kind.
var Pods = &resource.Def[*metricsv1beta1.PodMetrics]{
	GVK: metricsv1beta1.SchemeGroupVersion.WithKind("PodMetrics"), Plural: "pods", Singular: "podmetrics", Namespaced: true,
	Virtual: true, JSON: true, Verbs: readOnly,
	Columns: []resource.Column[*metricsv1beta1.PodMetrics]{
		resource.Col("CPU", "string", func(p *metricsv1beta1.PodMetrics) any { return total(p, corev1.ResourceCPU) }),
		resource.Col("Memory", "string", func(p *metricsv1beta1.PodMetrics) any { return total(p, corev1.ResourceMemory) }),
		resource.Col("Window", "string", func(p *metricsv1beta1.PodMetrics) any { return p.Window.Duration.String() }),
	},
}

// All returns the kinds.
func All() []resource.Kind { return []resource.Kind{Nodes, Pods} }

// total returns the use of all containers of the pod together.
func total(p *metricsv1beta1.PodMetrics, name corev1.ResourceName) string {
	var q apiresource.Quantity
	for _, c := range p.Containers {
		q.Add(c.Usage[name])
	}
	return q.String()
}
