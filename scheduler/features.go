package scheduler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/component-helpers/nodedeclaredfeatures/types"
)

var missingFeatures = &refusal{plugin: nodeFeatures, reasons: []string{"node(s) didn't match Pod's required features"}, unresolvable: true}

// featuresOf returns the declared features that the pod needs: not every node of the release has them.
func (st *state) featuresOf(p *corev1.Pod) ndf.FeatureSet {
	set, err := ndf.DefaultFramework.InferForPodScheduling(&types.PodInfo{Spec: &p.Spec}, st.release)
	if err != nil {
		return ndf.DefaultFramework.NewFeatureSet() // only without a release
	}
	return set
}

func noFeatures(o *nodeVerdicts) bool { return o.features.IsEmpty() }

// checkFeatures is the plugin NodeDeclaredFeatures.
func checkFeatures(o *nodeVerdicts, s *nodeInfo) *refusal {
	has := ndf.DefaultFramework.TryMap(slices.Sorted(slices.Values(s.node.Status.DeclaredFeatures)))
	if ok, err := o.features.IsSubset(has); err != nil || !ok {
		return missingFeatures
	}
	return nil
}
