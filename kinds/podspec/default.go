// Package podspec holds what is said about pods wherever they occur - as Pods, as templates of workloads:
// defaulting, validation, and the rules of labels, selectors, volumes and resources that come with them.
package podspec

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds/rule"
)

// DefaultTemplate fills the unset fields of a pod template.
func DefaultTemplate(t *corev1.PodTemplateSpec) { Default(&t.Spec) }

// Default fills the unset fields of a pod spec, in a pod as in a template.
func Default(s *corev1.PodSpec) {
	rule.FillZero(&s.DNSPolicy, corev1.DNSClusterFirst)
	rule.FillZero(&s.RestartPolicy, corev1.RestartPolicyAlways)
	rule.FillZero(&s.SchedulerName, corev1.DefaultSchedulerName)
	rule.Fill(&s.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	rule.Fill(&s.SecurityContext, corev1.PodSecurityContext{})
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
func DefaultPod(s *corev1.PodSpec) {
	Default(s)
	rule.Fill(&s.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	for _, list := range [][]corev1.Container{s.Containers, s.InitContainers} {
		for i := range list {
			requestLimits(&list[i].Resources)
			if s.HostNetwork {
				hostPorts(list[i].Ports)
			}
		}
	}
}

// requestLimits requests what is limited, where nothing else is requested.
func requestLimits(r *corev1.ResourceRequirements) {
	for name, q := range r.Limits {
		addTo(&r.Requests, name, q)
	}
}

func hostPorts(ports []corev1.ContainerPort) {
	for i := range ports {
		rule.FillZero(&ports[i].HostPort, ports[i].ContainerPort)
	}
}
