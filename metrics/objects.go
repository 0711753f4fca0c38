package metrics

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/kloop-dev/kloop/kinds/core"
	metricskinds "github.com/kloop-dev/kloop/kinds/metrics"
	"github.com/kloop-dev/kloop/metrics/usage"
	"github.com/kloop-dev/kloop/resource"
)

// Objects computes the objects of a kind of this API: those in the namespace ("": in all) that have the name ("": any).
// A node or a pod whose use is not known is not among them.
func (c *Collector) Objects(ctx context.Context, k resource.Kind, ns, name string) (list []resource.Object, err error) {
	if err := c.fresh(ctx); err != nil {
		return nil, err
	}
	read := c.cfg.Read()
	pairs := c.pairs()
	if k == resource.Kind(metricskinds.Nodes) {
		for _, n := range resource.List(read, core.Nodes, "") {
			if p, ok := pairs[n.Name]; ok && (name == "" || n.Name == name) {
				if m := p.node(n); m != nil {
					list = append(list, m)
				}
			}
		}
		return list, nil
	}
	for _, pod := range resource.List(read, core.Pods, ns) {
		if p, ok := pairs[pod.Spec.NodeName]; ok && (name == "" || pod.Name == name) && pod.Status.Phase == corev1.PodRunning {
			if m := p.pod(pod); m != nil {
				list = append(list, m)
			}
		}
	}
	return list, nil
}

// pairs are the counts at hand. Summaries never change.
func (c *Collector) pairs() map[string]pair {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[string]pair, len(c.nodes))
	for name, p := range c.nodes {
		out[name] = *p
	}
	return out
}

// since is the time of the older count, and the window between the two.
func (p pair) since() (time.Time, time.Duration) {
	if p.before == nil {
		return p.last.At, 0
	}
	return p.before.At, p.last.At.Sub(p.before.At)
}

func (p pair) node(n *corev1.Node) *metricsv1beta1.NodeMetrics {
	from, window := p.since()
	var before *usage.Count
	if p.before != nil {
		before = &p.before.Node
	}
	use := used(p.last.Node, before, p.last.At, from)
	if use == nil {
		return nil
	}
	return &metricsv1beta1.NodeMetrics{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels,
		CreationTimestamp: metav1.NewTime(p.last.At)},
		Timestamp: metav1.NewTime(p.last.At), Window: metav1.Duration{Duration: window}, Usage: use}
}

// pod is nil unless the use of every container that runs is known.
func (p pair) pod(pod *corev1.Pod) *metricsv1beta1.PodMetrics {
	from, window := p.since()
	m := &metricsv1beta1.PodMetrics{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, Labels: pod.Labels,
		CreationTimestamp: metav1.NewTime(p.last.At)}, Timestamp: metav1.NewTime(p.last.At), Window: metav1.Duration{Duration: window}}
	for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for _, c := range list {
			if c.State.Running == nil {
				continue
			}
			key := usage.Container{Namespace: pod.Namespace, Pod: pod.Name, UID: string(pod.UID), Name: c.Name}
			now, ok := p.last.Containers[key]
			if !ok {
				return nil
			}
			var before *usage.Count
			if p.before != nil {
				if u, ok := p.before.Containers[key]; ok {
					before = &u
				}
			}
			use := used(now, before, p.last.At, from)
			if use == nil {
				return nil
			}
			m.Containers = append(m.Containers, metricsv1beta1.ContainerMetrics{Name: c.Name, Usage: use})
		}
	}
	if len(m.Containers) == 0 {
		return nil
	}
	return m
}

// used is nil when CPU or memory is not known.
func used(now usage.Count, before *usage.Count, at, from time.Time) corev1.ResourceList {
	cpu, ok := now.CPU(before, at, from)
	if !ok || now.Memory == nil {
		return nil
	}
	return corev1.ResourceList{corev1.ResourceCPU: *apiresource.NewScaledQuantity(int64(cpu), apiresource.Nano),
		corev1.ResourceMemory: *apiresource.NewQuantity(int64(*now.Memory), apiresource.BinarySI)}
}
