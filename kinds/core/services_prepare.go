package core

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// prepareService lets clients that do not know of some fields write a service back: what they left out stays as
// it was allocated, and what the new type has no use for goes, unless they set it anew.
func prepareService(o, before *corev1.Service) {
	s := &o.Spec
	if p := s.InternalTrafficPolicy; s.Type == corev1.ServiceTypeExternalName && p != nil &&
		(*p == corev1.ServiceInternalTrafficPolicyCluster || *p == corev1.ServiceInternalTrafficPolicyLocal) {
		s.InternalTrafficPolicy = nil // upstream does not show it
	}
	if before == nil {
		if s.ClusterIP != "" && len(s.ClusterIPs) == 0 {
			s.ClusterIPs = []string{s.ClusterIP}
		}
		return
	}
	old := &before.Spec
	keepAllocated(s, old)
	followClusterIP(s, old)
	dropUnused(o, before)
}

// keepAllocated lets clients replace a Service without knowing what was allocated for it: what they leave out stays, as long as the type
// still has it.
func keepAllocated(s, old *corev1.ServiceSpec) {
	if hasClusterIP(s) && hasClusterIP(old) {
		rule.FillZero(&s.ClusterIP, old.ClusterIP)
		if len(s.ClusterIPs) == 0 && s.ClusterIP == old.ClusterIP {
			s.ClusterIPs = slices.Clone(old.ClusterIPs)
		}
	}
	if hasNodePorts(s) && hasNodePorts(old) {
		keepNodePorts(s, old)
	}
	if hasHealthPort(s) && hasHealthPort(old) {
		rule.FillZero(&s.HealthCheckNodePort, old.HealthCheckNodePort)
	}
}

// keepNodePorts gives ports their old node port, by name, unless another port asks for it.
func keepNodePorts(s, old *corev1.ServiceSpec) {
	asked, byName := nodePorts(s), map[string]int32{}
	for _, p := range old.Ports {
		byName[p.Name] = p.NodePort
	}
	for i := range s.Ports {
		if p := &s.Ports[i]; p.NodePort == 0 && !asked[byName[p.Name]] {
			p.NodePort = byName[p.Name]
		}
	}
}

func nodePorts(s *corev1.ServiceSpec) map[int32]bool {
	used := map[int32]bool{}
	for _, p := range s.Ports {
		if p.NodePort != 0 {
			used[p.NodePort] = true
		}
	}
	return used
}

// followClusterIP makes the list follow the single address where only the latter was changed, or there is no list.
func followClusterIP(s, old *corev1.ServiceSpec) {
	if s.ClusterIP == old.ClusterIP || len(s.ClusterIPs) > 0 && !slices.Equal(s.ClusterIPs, old.ClusterIPs) {
		return
	}
	s.ClusterIPs = nil
	if s.ClusterIP != "" {
		s.ClusterIPs = []string{s.ClusterIP}
	}
}

// dropUnused clears what the old type needed, the new one does not, and the writer left as it was.
func dropUnused(o, before *corev1.Service) {
	s, old := &o.Spec, &before.Spec
	if hasClusterIP(old) && !hasClusterIP(s) {
		if s.ClusterIP == old.ClusterIP && slices.Equal(s.ClusterIPs, old.ClusterIPs) {
			s.ClusterIP, s.ClusterIPs = "", nil
		}
		drop(&s.IPFamilies, old.IPFamilies)
		drop(&s.IPFamilyPolicy, old.IPFamilyPolicy)
		drop(&s.InternalTrafficPolicy, old.InternalTrafficPolicy)
	}
	if hasNodePorts(old) && !hasNodePorts(s) && resource.Same(nodePorts(s), nodePorts(old)) {
		for i := range s.Ports {
			s.Ports[i].NodePort = 0
		}
	}
	if hasHealthPort(old) && !hasHealthPort(s) {
		drop(&s.HealthCheckNodePort, old.HealthCheckNodePort)
	}
	if old.Type == corev1.ServiceTypeLoadBalancer && s.Type != old.Type {
		drop(&s.AllocateLoadBalancerNodePorts, old.AllocateLoadBalancerNodePorts)
		drop(&s.LoadBalancerClass, old.LoadBalancerClass)
		o.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	}
	if external(old) && !external(s) {
		drop(&s.ExternalTrafficPolicy, old.ExternalTrafficPolicy)
	}
}

func drop[T any](field *T, old T) {
	if resource.Same(*field, old) {
		var zero T
		*field = zero
	}
}
