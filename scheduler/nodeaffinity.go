package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

var (
	notWanted = &refusal{plugin: nodeAffinity, reasons: []string{"node(s) didn't match Pod's node affinity/selector"}, unresolvable: true}
	notNamed  = &refusal{plugin: nodeAffinity, reasons: []string{"node(s) didn't satisfy plugin(s) [NodeAffinity]"}, unresolvable: true}
)

// checkNamed refuses all nodes but those that the pod's affinity names outright, as pods of a DaemonSet do.
func checkNamed(o *nodeVerdicts, s *nodeInfo) *refusal {
	if o.named == nil || o.named[s.node.Name] {
		return nil
	}
	return notNamed
}

// checkAffinity is the filter of the plugin NodeAffinity, nodeSelector included.
func checkAffinity(o *nodeVerdicts, s *nodeInfo) *refusal {
	if ok, err := o.required.Match(s.node); err != nil || !ok {
		return notWanted
	}
	return nil
}

// scoreAffinity sums the weights of the preferences that the node meets.
func scoreAffinity(o *nodeVerdicts, s *nodeInfo) int64 { return o.preferred.Score(s.node) }

func affinityOf(p *corev1.Pod) *corev1.NodeAffinity {
	if p.Spec.Affinity == nil {
		return nil
	}
	return p.Spec.Affinity.NodeAffinity
}

// anyNode says that the pods neither select nodes nor require an affinity to them.
func anyNode(o *nodeVerdicts) bool {
	a := affinityOf(o.pod)
	return len(o.pod.Spec.NodeSelector) == 0 && (a == nil || a.RequiredDuringSchedulingIgnoredDuringExecution == nil)
}

func noPreference(o *nodeVerdicts) bool { return o.preferred == nil }

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
