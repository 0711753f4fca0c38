package scheduler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/component-helpers/nodedeclaredfeatures/types"
)

var featureless = &refusal{plugin: nodeFeatures, reasons: []string{"node(s) didn't match Pod's required features"}, hopeless: true}

// featuresOf is what the pod uses that not every node of the release can do, as all parts of a cluster agree on.
func (st *state) featuresOf(p *corev1.Pod) ndf.FeatureSet {
	set, err := ndf.DefaultFramework.InferForPodScheduling(&types.PodInfo{Spec: &p.Spec}, st.release)
	if err != nil {
		return ndf.DefaultFramework.NewFeatureSet() // only without a release
	}
	return set
}

// checkFeatures is the plugin NodeDeclaredFeatures.
func checkFeatures(o *outlook, s *slot) *refusal {
	has := ndf.DefaultFramework.TryMap(slices.Sorted(slices.Values(s.node.Status.DeclaredFeatures)))
	if ok, err := o.features.IsSubset(has); err != nil || !ok {
		return featureless
	}
	return nil
}
