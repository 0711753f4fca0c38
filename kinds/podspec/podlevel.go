package podspec

import (
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/resource"
)

// DefaultWhole completes resources given for a pod as a whole where they get their defaults with all other fields, as up to 1.36.
func DefaultWhole(on *features.Set, s *corev1.PodSpec) {
	if on.On("PodLevelResources") && !on.On(lateDefaults) && s.Resources != nil {
		limitHugePages(s)
		if len(s.Resources.Limits) > 0 {
			requestTogether(s)
		}
	}
}

// lateDefaults is the feature that completes a pod's resources when admission has changed all that it wants to.
const lateDefaults = "PodLevelResourcesFixDefaulting"

// CompleteWhole completes resources given for a pod as a whole when it is about to be stored: those of a new one, and of one whose sizes
// change. A writer that does not know of them leaves them as they are.
func CompleteWhole(on *features.Set, s, old *corev1.PodSpec) {
	if !on.On("PodLevelResources") || !on.On(lateDefaults) {
		return
	}
	if old != nil && s.Resources == nil && old.Resources != nil {
		s.Resources = old.Resources.DeepCopy()
	}
	if s.Resources == nil || len(s.Resources.Limits)+len(s.Resources.Requests) == 0 || old != nil && sameSizes(s, old) {
		return
	}
	limitHugePages(s)
	requestTogether(s)
	limitTogether(s)
}

func sameSizes(a, b *corev1.PodSpec) bool {
	if b.Resources == nil || len(a.Containers) != len(b.Containers) || len(a.InitContainers) != len(b.InitContainers) {
		return false
	}
	same := sameAmounts(a.Resources, b.Resources)
	for i := range a.Containers {
		same = same && sameAmounts(&a.Containers[i].Resources, &b.Containers[i].Resources)
	}
	for i := range a.InitContainers {
		same = same && sameAmounts(&a.InitContainers[i].Resources, &b.InitContainers[i].Resources)
	}
	return same
}

func sameAmounts(a, b *corev1.ResourceRequirements) bool {
	return resource.Same(a.Limits, b.Limits) && resource.Same(a.Requests, b.Requests)
}

// asks says whether resources of a pod as a whole name any that can be given to one.
func asks(r *corev1.ResourceRequirements) bool {
	if r == nil {
		return false
	}
	for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
		for name := range list {
			if podresource.IsSupportedPodLevelResource(name) {
				return true
			}
		}
	}
	return false
}

// NamesNothing says whether resources of a pod as a whole are there and empty.
func NamesNothing(r *corev1.ResourceRequirements) bool { return r != nil && !asks(r) }

// AsksNothing says whether a new pod is of the class BestEffort because its resources are there and empty: up to 1.36 those of its
// containers did not count then.
func AsksNothing(on *features.Set, s *corev1.PodSpec) bool {
	return NamesNothing(s.Resources) && !on.On("PodLevelResourcesFixKubeletQOSClass") && on.On("PodLevelResources")
}

// limitHugePages limits the pod to the huge pages that its containers are limited to together, unless it requests some.
func limitHugePages(s *corev1.PodSpec) {
	r := s.Resources
	if len(r.Limits)+len(r.Requests) == 0 {
		return
	}
	for name, q := range limits(s) {
		if _, asked := r.Requests[name]; !asked && isHugePages(name) && podresource.IsSupportedPodLevelResource(name) {
			addTo(&r.Limits, name, q)
		}
	}
}

// requestTogether requests for the pod what its containers request together, and else its limits.
func requestTogether(s *corev1.PodSpec) {
	r := s.Resources
	sum := podresource.AggregateContainerRequests(&corev1.Pod{Spec: *s}, podresource.PodResourcesOptions{})
	for name, q := range sum {
		if podresource.IsSupportedPodLevelResource(name) && !isHugePages(name) {
			addTo(&r.Requests, name, q)
		}
	}
	for name, q := range r.Limits {
		if podresource.IsSupportedPodLevelResource(name) {
			addTo(&r.Requests, name, q)
		}
	}
}

// limitTogether limits the pod to what all of its containers are limited to together, if each of them has a limit, and to no less than
// it requests.
func limitTogether(s *corev1.PodSpec) {
	r := s.Resources
	var sums corev1.ResourceList
	for name, asked := range r.Requests {
		if _, given := r.Limits[name]; given || !podresource.IsSupportedPodLevelResource(name) || !allLimited(s, name) {
			continue
		}
		if sums == nil {
			sums = limits(s)
		}
		if sum, ok := sums[name]; ok {
			addTo(&r.Limits, name, larger(sum, asked))
		}
	}
}

func limits(s *corev1.PodSpec) corev1.ResourceList {
	return podresource.AggregateContainerLimits(&corev1.Pod{Spec: *s}, podresource.PodResourcesOptions{})
}

func larger(a, b apiresource.Quantity) apiresource.Quantity {
	if b.Cmp(a) > 0 {
		return b
	}
	return a
}

// allLimited says whether every container has a limit for a resource, those that were added for debugging among them.
func allLimited(s *corev1.PodSpec, name corev1.ResourceName) bool {
	all := true
	everyContainer(s, func(c *corev1.Container) {
		_, limited := c.Resources.Limits[name]
		all = all && limited
	})
	return all
}
