// Package podspec holds what is said about pods wherever they occur - as Pods, as templates of workloads:
// defaulting, validation, and the rules of labels, selectors, volumes and resources that come with them.
package podspec

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"github.com/kloop-dev/kloop/kinds/rule"
)

// DefaultTemplate fills the unset fields of a pod template.
func DefaultTemplate(t *v1.PodTemplateSpec) { Default(&t.Spec) }

// Default fills the unset fields of a pod spec, in a pod as in a template.
func Default(s *v1.PodSpec) {
	rule.FillZero(&s.DNSPolicy, v1.DNSClusterFirst)
	rule.FillZero(&s.RestartPolicy, v1.RestartPolicyAlways)
	rule.FillZero(&s.SchedulerName, v1.DefaultSchedulerName)
	rule.Fill(&s.TerminationGracePeriodSeconds, v1.DefaultTerminationGracePeriodSeconds)
	rule.Fill(&s.SecurityContext, v1.PodSecurityContext{})
	rule.FillZero(&s.ServiceAccountName, s.DeprecatedServiceAccount)
	s.DeprecatedServiceAccount = s.ServiceAccountName
	for i := range s.Volumes {
		defaultVolume(&s.Volumes[i].VolumeSource)
	}
	everyContainer(s, defaultContainer)
	RoundResources(s.Overhead)
	if s.Resources != nil {
		RoundResources(s.Resources.Limits)
		RoundResources(s.Resources.Requests)
	}
}

// DefaultPod fills what is unset in a pod's own spec; it does more than Default, because a template leaves
// open what admission may still change in the pods made of it.
func DefaultPod(s *v1.PodSpec) {
	Default(s)
	rule.Fill(&s.EnableServiceLinks, v1.DefaultEnableServiceLinks)
	for _, list := range [][]v1.Container{s.Containers, s.InitContainers} {
		for i := range list {
			requestLimits(&list[i].Resources)
			if s.HostNetwork {
				hostPorts(list[i].Ports)
			}
		}
	}
	if s.Resources != nil {
		defaultPodResources(s)
	}
}

// requestLimits requests what is limited, where nothing else is requested.
func requestLimits(r *v1.ResourceRequirements) {
	for name, q := range r.Limits {
		addTo(&r.Requests, name, q)
	}
}

func hostPorts(ports []v1.ContainerPort) {
	for i := range ports {
		rule.FillZero(&ports[i].HostPort, ports[i].ContainerPort)
	}
}

// defaultPodResources completes resources given for the pod as a whole: huge pages are limited to what is
// requested, requests are what the containers request together, else the limits.
func defaultPodResources(s *v1.PodSpec) {
	r := s.Resources
	for name, q := range r.Requests {
		if isHugePages(name) {
			addTo(&r.Limits, name, q)
		}
	}
	if len(r.Limits) == 0 {
		return
	}
	sum := resource.AggregateContainerRequests(&v1.Pod{Spec: *s}, resource.PodResourcesOptions{})
	for name, q := range sum {
		if resource.IsSupportedPodLevelResource(name) && !isHugePages(name) {
			addTo(&r.Requests, name, q)
		}
	}
	for name, q := range r.Limits {
		if resource.IsSupportedPodLevelResource(name) {
			addTo(&r.Requests, name, q)
		}
	}
}
