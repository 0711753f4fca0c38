package podspec

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// QOS is the class of service that a pod gets from its requests and limits of processors and memory:
// Guaranteed when both are set and equal for all, BestEffort when there are none, Burstable else.
func QOS(s *corev1.PodSpec) corev1.PodQOSClass {
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	guaranteed := true
	for _, r := range qosSources(s) {
		sumUp(requests, r.Requests)
		if sumUp(limits, r.Limits) != 2 {
			guaranteed = false
		}
	}
	if len(requests) == 0 && len(limits) == 0 {
		return corev1.PodQOSBestEffort
	}
	for name, q := range requests {
		if l, ok := limits[name]; !ok || l.Cmp(q) != 0 {
			guaranteed = false
		}
	}
	if guaranteed && len(requests) == len(limits) {
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}

func qosSources(s *corev1.PodSpec) (list []corev1.ResourceRequirements) {
	if asks(s.Resources) {
		return append(list, *s.Resources)
	}
	for _, containers := range [][]corev1.Container{s.Containers, s.InitContainers} {
		for i := range containers {
			list = append(list, containers[i].Resources)
		}
	}
	return list
}

// sumUp adds the amounts of processors and memory that are not zero and returns how many of the two there were. Negative ones
// count: they are refused elsewhere, and change no class.
func sumUp(sum, list corev1.ResourceList) (found int) {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		q, ok := list[name]
		if !ok || q.IsZero() {
			continue
		}
		found++
		q = q.DeepCopy()
		q.Add(sum[name])
		sum[name] = q
	}
	return found
}

// MergeMatchLabelKeys writes the pod's own values of the label keys that affinity terms and spread constraints
// name into their selectors, even if they are there: that is refused later.
func MergeMatchLabelKeys(s *corev1.PodSpec, labels map[string]string) {
	for i := range s.TopologySpreadConstraints {
		c := &s.TopologySpreadConstraints[i]
		mergeKeys(c.LabelSelector, c.MatchLabelKeys, metav1.LabelSelectorOpIn, labels)
	}
	if s.Affinity == nil {
		return
	}
	for _, t := range affinityTerms(s.Affinity) {
		mergeKeys(t.LabelSelector, t.MatchLabelKeys, metav1.LabelSelectorOpIn, labels)
		mergeKeys(t.LabelSelector, t.MismatchLabelKeys, metav1.LabelSelectorOpNotIn, labels)
	}
}

func affinityTerms(a *corev1.Affinity) (list []*corev1.PodAffinityTerm) {
	add := func(must []corev1.PodAffinityTerm, may []corev1.WeightedPodAffinityTerm) {
		for i := range must {
			list = append(list, &must[i])
		}
		for i := range may {
			list = append(list, &may[i].PodAffinityTerm)
		}
	}
	if p := a.PodAffinity; p != nil {
		add(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if p := a.PodAntiAffinity; p != nil {
		add(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return list
}

func mergeKeys(s *metav1.LabelSelector, keys []string, op metav1.LabelSelectorOperator, labels map[string]string) {
	if s == nil {
		return
	}
	for _, key := range keys {
		if v, ok := labels[key]; ok {
			s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: op, Values: []string{v}})
		}
	}
}

// PrepareClaim forgets a data source that is neither a claim nor a snapshot - dataSourceRef is for the others -
// and makes the two fields say the same. A claim that has a source keeps it; old is nil for a new one.
func PrepareClaim(s, old *corev1.PersistentVolumeClaimSpec) {
	if r := s.DataSourceRef; r != nil && r.Namespace != nil && *r.Namespace != "" && (old == nil || old.DataSourceRef == nil) {
		s.DataSourceRef = nil // sources in other namespaces are off by default upstream too
	}
	if s.DataSourceRef == nil && (old == nil || old.DataSource == nil && old.DataSourceRef == nil) && !claimOrSnapshot(s.DataSource) {
		s.DataSource = nil
	}
	AlignDataSources(s)
}

func claimOrSnapshot(d *corev1.TypedLocalObjectReference) bool {
	if d == nil {
		return false
	}
	group := ""
	if d.APIGroup != nil {
		group = *d.APIGroup
	}
	return group == "" && d.Kind == "PersistentVolumeClaim" || group == "snapshot.storage.k8s.io" && d.Kind == "VolumeSnapshot"
}

// AlignDataSources makes the two fields that name what a claim is filled from say the same.
func AlignDataSources(s *corev1.PersistentVolumeClaimSpec) {
	from, ref := s.DataSource, s.DataSourceRef
	switch {
	case from != nil && ref == nil:
		s.DataSourceRef = &corev1.TypedObjectReference{APIGroup: from.APIGroup, Kind: from.Kind, Name: from.Name}
	case from == nil && ref != nil && (ref.Namespace == nil || *ref.Namespace == ""):
		s.DataSource = &corev1.TypedLocalObjectReference{APIGroup: ref.APIGroup, Kind: ref.Kind, Name: ref.Name}
	}
}
