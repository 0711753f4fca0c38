package scheduler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/component-helpers/nodedeclaredfeatures/types"
)

var featureless = &refusal{plugin: nodeFeatures, reasons: []string{"node(s) didn't match Pod's required features"}, hopeless: true}

// release is the one that what pods need of nodes is worked out for.
var release = version.MustParse("1.37.0")

// featuresOf is what the pod uses that not every node can do, as all parts of a cluster agree on.
func featuresOf(p *corev1.Pod) ndf.FeatureSet {
	set, err := ndf.DefaultFramework.InferForPodScheduling(&types.PodInfo{Spec: &p.Spec}, release)
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
