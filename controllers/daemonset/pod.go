package daemonset

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/kloop-dev/kloop/controllers/internal/pods"
	"github.com/kloop-dev/kloop/controllers/internal/revisions"
	"github.com/kloop-dev/kloop/kinds"
)

const (
	generationLabel = "pod-template-generation"
	nameField       = "metadata.name"
)

// newPod makes the pod of a node. The scheduler binds it: the pod only says where.
func newPod(ds *appsv1.DaemonSet, node, hash string) *corev1.Pod {
	p := pods.FromTemplate(kinds.DaemonSets, ds, &ds.Spec.Template)
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	p.Labels[revisions.Hash] = hash
	if g := ds.Annotations[appsv1.DeprecatedTemplateGeneration]; g != "" {
		p.Labels[generationLabel] = g
	}
	pin(&p.Spec, node)
	p.Spec.Tolerations = tolerations(&p.Spec)
	return p
}

// pin replaces the required node affinity by one node's name. What the template required was asked before.
func pin(s *corev1.PodSpec, node string) {
	if s.Affinity == nil {
		s.Affinity = &corev1.Affinity{}
	}
	if s.Affinity.NodeAffinity == nil {
		s.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: nameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}}
}

// nodeOf is the node that a pod runs on, or is pinned to.
func nodeOf(p *corev1.Pod) string {
	if p.Spec.NodeName != "" || p.Spec.Affinity == nil || p.Spec.Affinity.NodeAffinity == nil {
		return p.Spec.NodeName
	}
	if req := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; req != nil {
		for _, t := range req.NodeSelectorTerms {
			for _, f := range t.MatchFields {
				if f.Key == nameField && f.Operator == corev1.NodeSelectorOpIn && len(f.Values) == 1 {
					return f.Values[0]
				}
			}
		}
	}
	return ""
}

// tolerations are those of the template and those of every daemon: it stays on sick nodes.
func tolerations(s *corev1.PodSpec) []corev1.Toleration {
	list := slices.Clone(s.Tolerations)
	add := func(key string, e corev1.TaintEffect) {
		t := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: e}
		at := slices.IndexFunc(list, func(o corev1.Toleration) bool { return o.MatchToleration(&t) })
		if at < 0 {
			list = append(list, t)
		} else {
			list[at] = t
		}
	}
	add(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute)
	add(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)
	add(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule)
	add(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule)
	add(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule)
	add(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule)
	if s.HostNetwork {
		add(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule)
	}
	return list
}

// meant says whether the node should have a pod of the set, and if not, whether one that runs there may stay.
func meant(ds *appsv1.DaemonSet, n *corev1.Node) (run, stay bool) {
	s := &ds.Spec.Template.Spec
	if s.NodeName != "" && s.NodeName != n.Name {
		return false, false
	}
	if ok, err := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: *s}).Match(n); !ok || err != nil {
		return false, false
	}
	run, stay = true, true
	list := tolerations(s)
	for i := range n.Spec.Taints {
		t := &n.Spec.Taints[i]
		if t.Effect == corev1.TaintEffectPreferNoSchedule || slices.ContainsFunc(list,
			func(o corev1.Toleration) bool { return pods.Tolerates(&o, t) }) {
			continue
		}
		run = false
		stay = stay && t.Effect != corev1.TaintEffectNoExecute
	}
	return run, stay
}
