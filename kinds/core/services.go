package core

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kloop-dev/kloop/kinds/cell"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// Services declares the kind. The server allocates addresses and node ports and decides on address families.
var Services = &resource.Def[*v1.Service]{
	GVK: gvk("Service"), Plural: "services", Short: []string{"svc"}, Categories: []string{"all"}, Namespaced: true,
	Ways:    resource.Ways{ShowsDeleted: true},
	Storage: "services/specs", Name: rule.LabelName, CreateOnUpdate: true, Status: true,
	Default: defaultService, Prepare: prepareService,
	Validate: validateService, ValidateStatus: validateServiceStatus, Warn: warnService,
	Connect: []resource.SubInfo{{Name: "proxy", GVK: gvk("ServiceProxyOptions"), Verbs: doAll}},
	Select: []resource.Field[*v1.Service]{
		{Label: "spec.clusterIP", Value: func(s *v1.Service) string { return s.Spec.ClusterIP }},
		{Label: "spec.type", Value: func(s *v1.Service) string { return string(s.Spec.Type) }},
	},
	Columns: []resource.Column[*v1.Service]{
		resource.Col("Type", "string", func(s *v1.Service) any { return string(s.Spec.Type) }),
		resource.Col("Cluster-IP", "string", func(s *v1.Service) any { return clusterIP(s) }),
		resource.Col("External-IP", "string", func(s *v1.Service) any { return externalIP(s) }),
		resource.Col("Port(s)", "string", func(s *v1.Service) any { return servicePorts(s) }),
		resource.Age[*v1.Service](),
		resource.Wide("Selector", "string", func(s *v1.Service) any { return cell.Labels(s.Spec.Selector) }),
	},
}

func defaultService(o *v1.Service) {
	s := &o.Spec
	rule.FillZero(&s.Type, v1.ServiceTypeClusterIP)
	defaultAffinity(s)
	for i := range s.Ports {
		p := &s.Ports[i]
		rule.FillZero(&p.Protocol, v1.ProtocolTCP)
		if p.TargetPort == intstr.FromInt32(0) || p.TargetPort == intstr.FromString("") {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
	}
	if external(s) {
		rule.FillZero(&s.ExternalTrafficPolicy, v1.ServiceExternalTrafficPolicyCluster)
	}
	if hasClusterIP(s) {
		rule.Fill(&s.InternalTrafficPolicy, v1.ServiceInternalTrafficPolicyCluster)
	}
	if s.Type == v1.ServiceTypeLoadBalancer {
		rule.Fill(&s.AllocateLoadBalancerNodePorts, true)
		for i := range o.Status.LoadBalancer.Ingress {
			if in := &o.Status.LoadBalancer.Ingress[i]; in.IP != "" {
				rule.Fill(&in.IPMode, v1.LoadBalancerIPModeVIP)
			}
		}
	}
}

func defaultAffinity(s *v1.ServiceSpec) {
	rule.FillZero(&s.SessionAffinity, v1.ServiceAffinityNone)
	switch c := s.SessionAffinityConfig; {
	case s.SessionAffinity == v1.ServiceAffinityNone:
		s.SessionAffinityConfig = nil
	case s.SessionAffinity == v1.ServiceAffinityClientIP && (c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil):
		s.SessionAffinityConfig = &v1.SessionAffinityConfig{
			ClientIP: &v1.ClientIPConfig{TimeoutSeconds: new(v1.DefaultClientIPServiceAffinitySeconds)}}
	}
}

// external says whether traffic from outside of the cluster is expected.
func external(s *v1.ServiceSpec) bool {
	return hasNodePorts(s) || s.Type == v1.ServiceTypeClusterIP && len(s.ExternalIPs) > 0
}

func hasClusterIP(s *v1.ServiceSpec) bool { return s.Type != v1.ServiceTypeExternalName }

func hasNodePorts(s *v1.ServiceSpec) bool {
	return s.Type == v1.ServiceTypeNodePort || s.Type == v1.ServiceTypeLoadBalancer
}

func hasHealthPort(s *v1.ServiceSpec) bool {
	return s.Type == v1.ServiceTypeLoadBalancer && s.ExternalTrafficPolicy == v1.ServiceExternalTrafficPolicyLocal
}

func clusterIP(s *v1.Service) string {
	if len(s.Spec.ClusterIPs) > 0 {
		return s.Spec.ClusterIPs[0]
	}
	return cell.None
}

func externalIP(s *v1.Service) string {
	ips := slices.Clone(s.Spec.ExternalIPs)
	switch s.Spec.Type {
	case v1.ServiceTypeExternalName:
		return s.Spec.ExternalName
	case v1.ServiceTypeLoadBalancer:
		if ips = append(balancerIPs(s), ips...); len(ips) == 0 {
			return "<pending>"
		}
	case v1.ServiceTypeClusterIP, v1.ServiceTypeNodePort:
	default:
		return unknown
	}
	return cell.Or(strings.Join(ips, ","), cell.None)
}

func balancerIPs(s *v1.Service) (list []string) {
	for _, in := range s.Status.LoadBalancer.Ingress {
		if a := cell.Or(in.IP, in.Hostname); a != "" {
			list = append(list, a)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func servicePorts(s *v1.Service) string {
	list := make([]string, len(s.Spec.Ports))
	for i, p := range s.Spec.Ports {
		list[i] = fmt.Sprintf("%d/%s", p.Port, p.Protocol)
		if p.NodePort > 0 {
			list[i] = fmt.Sprintf("%d:%d/%s", p.Port, p.NodePort, p.Protocol)
		}
	}
	return cell.Or(strings.Join(list, ","), cell.None)
}
