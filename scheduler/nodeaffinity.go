package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

var (
	notWanted = &refusal{plugin: nodeAffinity, reasons: []string{"node(s) didn't match Pod's node affinity/selector"}, hopeless: true}
	notNamed  = &refusal{plugin: nodeAffinity, reasons: []string{"node(s) didn't satisfy plugin(s) [NodeAffinity]"}, hopeless: true}
)

// checkNamed refuses all nodes but those that the pod's affinity names outright, as pods of a DaemonSet do.
func checkNamed(o *outlook, s *slot) *refusal {
	if o.only[s.node.Name] {
		return nil
	}
	return notNamed
}

// checkAffinity is the filter of the plugin NodeAffinity, nodeSelector included.
func checkAffinity(o *outlook, s *slot) *refusal {
	if ok, err := o.required.Match(s.node); err != nil || !ok {
		return notWanted
	}
	return nil
}

// scoreAffinity sums the weights of the preferences that the node meets.
func scoreAffinity(o *outlook, s *slot) int64 { return o.preferred.Score(s.node) }

func affinityOf(p *corev1.Pod) *corev1.NodeAffinity {
	if p.Spec.Affinity == nil {
		return nil
	}
	return p.Spec.Affinity.NodeAffinity
}

// wantsNodes tells whether the pod has a say in which nodes it runs on.
func wantsNodes(p *corev1.Pod) bool {
	a := affinityOf(p)
	return len(p.Spec.NodeSelector) > 0 || a != nil && a.RequiredDuringSchedulingIgnoredDuringExecution != nil
}

func preferences(p *corev1.Pod) *nodeaffinity.PreferredSchedulingTerms {
	a := affinityOf(p)
	if a == nil || len(a.PreferredDuringSchedulingIgnoredDuringExecution) == 0 {
		return nil
	}
	terms, err := nodeaffinity.NewPreferredSchedulingTerms(a.PreferredDuringSchedulingIgnoredDuringExecution)
	if err != nil {
		return nil // validation refuses such terms; an object from elsewhere that has one is ranked without
	}
	return terms
}

// namedNodes returns the names if every term of the required affinity names a node; nil means any.
func namedNodes(p *corev1.Pod) map[string]bool {
	a := affinityOf(p)
	if a == nil || a.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	terms := a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	all := map[string]bool{}
	for i := range terms {
		var names map[string]bool
		for _, f := range terms[i].MatchFields {
			if f.Key != metaName || f.Operator != corev1.NodeSelectorOpIn {
				continue
			}
			these := map[string]bool{}
			for _, v := range f.Values {
				if names == nil || names[v] {
					these[v] = true
				}
			}
			names = these
		}
		if names == nil {
			return nil
		}
		for n := range names {
			all[n] = true
		}
	}
	if len(terms) == 0 {
		return nil
	}
	return all
}

const metaName = "metadata.name"
