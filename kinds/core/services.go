package core

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kloop-dev/kloop/kinds/cell"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// Services declares the kind. The server allocates addresses and node ports and decides on address families.
var Services = &resource.Def[*corev1.Service]{
	GVK: gvk("Service"), Plural: "services", Short: []string{"svc"}, Categories: []string{"all"}, Namespaced: true,
	Quirks:  resource.Quirks{MetaUpdateOnly: true, DeleteReturnsObject: true},
	Storage: "services/specs", Name: rule.LabelName, CreateOnUpdate: true, Status: true,
	Default: defaultService, Prepare: resource.Serving(prepareService),
	Validate: resource.Serving(validateService), ValidateStatus: resource.Serving(validateServiceStatus),
	Warn:    resource.Serving(warnService),
	Connect: []resource.SubInfo{{Name: "proxy", GVK: gvk("ServiceProxyOptions"), Verbs: doAll}},
	Select: []resource.Field[*corev1.Service]{
		{Label: "spec.clusterIP", Value: func(s *corev1.Service) string { return s.Spec.ClusterIP }},
		{Label: "spec.type", Value: func(s *corev1.Service) string { return string(s.Spec.Type) }},
	},
	Columns: []resource.Column[*corev1.Service]{
		resource.Col("Type", "string", func(s *corev1.Service) any { return string(s.Spec.Type) }),
		resource.Col("Cluster-IP", "string", func(s *corev1.Service) any { return clusterIP(s) }),
		resource.Col("External-IP", "string", func(s *corev1.Service) any { return externalIP(s) }),
		resource.Col("Port(s)", "string", func(s *corev1.Service) any { return servicePorts(s) }),
		resource.Age[*corev1.Service](),
		resource.Wide("Selector", "string", func(s *corev1.Service) any { return cell.Labels(s.Spec.Selector) }),
	},
}

const unknown = "<unknown>"

// defaultService fills in what proxies need said. It must not fill in what a type does not have: changing the type would be refused for
// fields that nobody set.
func defaultService(o *corev1.Service) {
	s := &o.Spec
	rule.FillZero(&s.Type, corev1.ServiceTypeClusterIP)
	defaultAffinity(s)
	for i := range s.Ports {
		p := &s.Ports[i]
		rule.FillZero(&p.Protocol, corev1.ProtocolTCP)
		if p.TargetPort == intstr.FromInt32(0) || p.TargetPort == intstr.FromString("") {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
	}
	if external(s) {
		rule.FillZero(&s.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	}
	if hasClusterIP(s) {
		rule.Fill(&s.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	}
	if s.Type == corev1.ServiceTypeLoadBalancer {
		rule.Fill(&s.AllocateLoadBalancerNodePorts, true)
		for i := range o.Status.LoadBalancer.Ingress {
			if in := &o.Status.LoadBalancer.Ingress[i]; in.IP != "" {
				rule.Fill(&in.IPMode, corev1.LoadBalancerIPModeVIP)
			}
		}
	}
}

// defaultAffinity gives session affinity upstream's three hours, and takes its settings away where there is none.
func defaultAffinity(s *corev1.ServiceSpec) {
	rule.FillZero(&s.SessionAffinity, corev1.ServiceAffinityNone)
	switch c := s.SessionAffinityConfig; {
	case s.SessionAffinity == corev1.ServiceAffinityNone:
		s.SessionAffinityConfig = nil
	case s.SessionAffinity == corev1.ServiceAffinityClientIP && (c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil):
		s.SessionAffinityConfig = &corev1.SessionAffinityConfig{
			ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(corev1.DefaultClientIPServiceAffinitySeconds)}}
	}
}

// external says whether traffic from outside of the cluster is expected.
func external(s *corev1.ServiceSpec) bool {
	return hasNodePorts(s) || s.Type == corev1.ServiceTypeClusterIP && len(s.ExternalIPs) > 0
}

func hasClusterIP(s *corev1.ServiceSpec) bool { return s.Type != corev1.ServiceTypeExternalName }

func hasNodePorts(s *corev1.ServiceSpec) bool {
	return s.Type == corev1.ServiceTypeNodePort || s.Type == corev1.ServiceTypeLoadBalancer
}

func hasHealthPort(s *corev1.ServiceSpec) bool {
	return s.Type == corev1.ServiceTypeLoadBalancer && s.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

func clusterIP(s *corev1.Service) string {
	if len(s.Spec.ClusterIPs) > 0 {
		return s.Spec.ClusterIPs[0]
	}
	return cell.None
}

// externalIP is the column EXTERNAL-IP. "<pending>" is a load balancer that nobody has given an address yet.
func externalIP(s *corev1.Service) string {
	ips := slices.Clone(s.Spec.ExternalIPs)
	switch s.Spec.Type {
	case corev1.ServiceTypeExternalName:
		return s.Spec.ExternalName
	case corev1.ServiceTypeLoadBalancer:
		if ips = append(balancerIPs(s), ips...); len(ips) == 0 {
			return "<pending>"
		}
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort:
	default:
		return unknown
	}
	return cell.Or(strings.Join(ips, ","), cell.None)
}

func balancerIPs(s *corev1.Service) (list []string) {
	for _, in := range s.Status.LoadBalancer.Ingress {
		if a := cell.Or(in.IP, in.Hostname); a != "" {
			list = append(list, a)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func servicePorts(s *corev1.Service) string {
	list := make([]string, len(s.Spec.Ports))
	for i, p := range s.Spec.Ports {
		list[i] = fmt.Sprintf("%d/%s", p.Port, p.Protocol)
		if p.NodePort > 0 {
			list[i] = fmt.Sprintf("%d:%d/%s", p.Port, p.NodePort, p.Protocol)
		}
	}
	return cell.Or(strings.Join(list, ","), cell.None)
}
