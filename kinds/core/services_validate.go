package core

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

const (
	onlyBalanced = "may only be used when `type` is 'LoadBalancer'"
	maxAffinity  = 86400 // seconds
)

func headless(s *corev1.ServiceSpec) bool {
	return len(s.ClusterIPs) == 1 && s.ClusterIPs[0] == corev1.ClusterIPNone
}

func validateService(o, old *corev1.Service) (errs field.ErrorList) {
	s := &o.Spec
	if hasClusterIP(s) { // addresses are allocated before the rest is looked at: errors in them come alone
		if bad := ValidateClusterIPs(o, old); len(bad) > 0 {
			return bad
		}
	}
	add := func(list field.ErrorList) { errs = append(errs, list...) }
	var was *corev1.ServiceSpec
	if old != nil {
		was = &old.Spec
		add(validateServiceUpdate(s, was))
	}
	add(serviceHints(o))
	add(validateServiceType(s, was))
	ports := specPath.Child("ports")
	add(validateServicePorts(s, ports))
	add(metavalidation.ValidateLabels(s.Selector, specPath.Child("selector")))
	add(rule.Chosen(s.SessionAffinity, specPath.Child("sessionAffinity"), corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone))
	add(validateAffinityConfig(s, specPath.Child("sessionAffinityConfig")))
	for i, ip := range s.ExternalIPs {
		at := specPath.Child("externalIPs").Index(i)
		if bad := validIP(ip, at); len(bad) > 0 {
			add(bad)
		} else {
			add(rule.Reachable(ip, at))
		}
	}
	add(rule.Chosen(s.Type, specPath.Child("type"), corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort,
		corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeExternalName))
	add(portsOfType(s, ports))
	add(portsTwice(s, ports))
	add(serviceRanges(o))
	add(validateBalancer(s))
	add(validateTraffic(s))
	return errs
}

// serviceHints checks the annotation that still says what another says today.
func serviceHints(o *corev1.Service) (errs field.ErrorList) {
	path, a := field.NewPath("metadata", "annotations"), o.Annotations
	hints, old := a[corev1.DeprecatedAnnotationTopologyAwareHints]
	if mode, ok := a[corev1.AnnotationTopologyMode]; ok && old && mode != hints {
		errs = append(errs, field.Invalid(path.Key(corev1.AnnotationTopologyMode), mode,
			"must match annotations["+corev1.DeprecatedAnnotationTopologyAwareHints+"] when both are specified"))
	}
	return errs
}

// serviceRanges checks the annotation that still says what a field says today, where that is missing.
func serviceRanges(o *corev1.Service) (errs field.ErrorList) {
	ranges, ok := o.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey]
	if !ok || len(o.Spec.LoadBalancerSourceRanges) > 0 {
		return nil
	}
	at := field.NewPath("metadata", "annotations").Key(corev1.AnnotationLoadBalancerSourceRangesKey)
	if o.Spec.Type != corev1.ServiceTypeLoadBalancer {
		errs = append(errs, field.Forbidden(at, onlyBalanced))
	}
	if ranges = strings.TrimSpace(ranges); ranges == "" {
		return errs
	}
	for _, r := range strings.Split(ranges, ",") {
		errs = append(errs, utilvalidation.IsValidCIDRForLegacyField(at, strings.TrimSpace(r), true, nil)...)
	}
	return errs
}

// validateServiceType says what each type must have and may not have. ExternalName is answered by a name alone and has no address.
func validateServiceType(s, old *corev1.ServiceSpec) (errs field.ErrorList) {
	if len(s.Ports) == 0 && !headless(s) && s.Type != corev1.ServiceTypeExternalName {
		errs = append(errs, field.Required(specPath.Child("ports"), ""))
	}
	if hasNodePorts(s) && headless(s) {
		errs = append(errs, field.Invalid(specPath.Child("clusterIPs").Index(0), s.ClusterIPs[0],
			"may not be set to 'None' for "+string(s.Type)+" services"))
	}
	if s.Type != corev1.ServiceTypeExternalName {
		return errs
	}
	// An address that is set on the way to this type is shown in the list afterwards: upstream looks at the list alone, before that.
	followed := old != nil && hasClusterIP(old) && s.ClusterIP != old.ClusterIP && slices.Equal(s.ClusterIPs, []string{s.ClusterIP})
	for _, f := range []struct {
		name string
		set  bool
	}{{"clusterIPs", len(s.ClusterIPs) > 0 && !followed}, {"ipFamilies", len(s.IPFamilies) > 0}, {"ipFamilyPolicy", s.IPFamilyPolicy != nil}} {
		if f.set {
			errs = append(errs, field.Forbidden(specPath.Child(f.name), "may not be set for ExternalName services"))
		}
	}
	return append(errs, rule.NeededFormat(strings.TrimSuffix(s.ExternalName, "."), specPath.Child("externalName"), rule.Subdomain)...)
}

type portKey struct {
	protocol corev1.Protocol
	port     int32
}

func validateServicePorts(s *corev1.ServiceSpec, path *field.Path) (errs field.ErrorList) {
	names := sets.New[string]()
	for i := range s.Ports {
		errs = append(errs, validateServicePort(&s.Ports[i], len(s.Ports) > 1, names, path.Index(i))...)
	}
	return errs
}

// portsOfType keeps ports of nodes from services that have none there.
func portsOfType(s *corev1.ServiceSpec, path *field.Path) (errs field.ErrorList) {
	for i, p := range s.Ports {
		if s.Type == corev1.ServiceTypeClusterIP && p.NodePort != 0 {
			errs = append(errs, field.Forbidden(path.Index(i).Child("nodePort"), "may not be used when `type` is 'ClusterIP'"))
		}
	}
	return errs
}

// portsTwice finds ports that are there already: first those of nodes, then those of the service.
func portsTwice(s *corev1.ServiceSpec, path *field.Path) (errs field.ErrorList) {
	var onNodes, ports []portKey
	for _, p := range s.Ports {
		onNodes, ports = append(onNodes, portKey{p.Protocol, p.NodePort}), append(ports, portKey{p.Protocol, p.Port})
	}
	for i, k := range onNodes {
		if k.port != 0 && slices.Contains(onNodes[:i], k) {
			errs = append(errs, field.Duplicate(path.Index(i).Child("nodePort"), k.port))
		}
	}
	for i, k := range ports {
		if slices.Contains(ports[:i], k) {
			errs = append(errs, field.Duplicate(path.Index(i), rule.Internal(corev1.ServicePort{Protocol: k.protocol, Port: k.port})))
		}
	}
	return errs
}

func validateServicePort(p *corev1.ServicePort, named bool, names sets.Set[string], path *field.Path) (errs field.ErrorList) {
	add := func(list ...*field.Error) { errs = append(errs, list...) }
	switch {
	case p.Name != "":
		add(rule.Format(p.Name, path.Child("name"), rule.Label)...)
		if names.Has(p.Name) {
			add(field.Duplicate(path.Child("name"), p.Name))
		}
		names.Insert(p.Name)
	case named:
		add(field.Required(path.Child("name"), ""))
	}
	add(rule.Says(utilvalidation.IsValidPortNum(int(p.Port)), p.Port, path.Child("port"))...)
	add(rule.Chosen(p.Protocol, path.Child("protocol"), corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)...)
	add(podspec.ValidatePort(p.TargetPort, path.Child("targetPort"))...)
	if p.AppProtocol != nil {
		add(rule.Format(*p.AppProtocol, path.Child("appProtocol"), utilvalidation.IsQualifiedName)...)
	}
	return errs
}

func validateAffinityConfig(s *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	c := s.SessionAffinityConfig
	at := path.Child("clientIP")
	switch {
	case s.SessionAffinity == corev1.ServiceAffinityNone && c != nil:
		return field.ErrorList{field.Forbidden(path, "must not be set when session affinity is None")}
	case s.SessionAffinity != corev1.ServiceAffinityClientIP:
		return nil
	case c == nil:
		return field.ErrorList{field.Required(path, "when session affinity type is ClientIP")}
	case c.ClientIP == nil:
		return field.ErrorList{field.Required(at, "when session affinity type is ClientIP")}
	case c.ClientIP.TimeoutSeconds == nil:
		return field.ErrorList{field.Required(at.Child("timeoutSeconds"), "when session affinity type is ClientIP")}
	}
	if t := *c.ClientIP.TimeoutSeconds; t < 1 || t > maxAffinity {
		return field.ErrorList{field.Invalid(at.Child("timeoutSeconds"), t, fmt.Sprintf("must be greater than 0 and less than %d", maxAffinity))}
	}
	return nil
}

// ValidateClusterIPs says what is wrong with the addresses and families of a service by themselves.
func ValidateClusterIPs(o, old *corev1.Service) (errs field.ErrorList) {
	s := &o.Spec
	add := func(list ...*field.Error) { errs = append(errs, list...) }
	path := specPath.Child("clusterIPs")
	switch {
	case s.ClusterIP == "" && len(s.ClusterIPs) > 0:
		add(field.Invalid(path, s.ClusterIPs, "must be empty when `clusterIP` is not specified"))
	case s.ClusterIP != "" && len(s.ClusterIPs) == 0:
		add(field.Required(path, ""))
	case s.ClusterIP != "" && s.ClusterIPs[0] != s.ClusterIP:
		add(field.Invalid(path, s.ClusterIPs, "first value must match `clusterIP`"))
	}
	seen := sets.New[corev1.IPFamily]()
	for i, f := range s.IPFamilies {
		at := specPath.Child("ipFamilies").Index(i)
		add(rule.Among(f, at, corev1.IPv4Protocol, corev1.IPv6Protocol)...)
		if seen.Has(f) {
			add(field.Duplicate(at, f))
		}
		seen.Insert(f)
	}
	add(rule.AmongPtr(s.IPFamilyPolicy, specPath.Child("ipFamilyPolicy"), corev1.IPFamilyPolicySingleStack,
		corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack)...)
	var had []string
	if old != nil {
		had = old.Spec.ClusterIPs
	}
	return append(errs, validateAddresses(s, had, path)...)
}

// validateAddresses takes whatever the service had before for an address.
func validateAddresses(s *corev1.ServiceSpec, had []string, path *field.Path) (errs field.ErrorList) {
	for i, ip := range s.ClusterIPs {
		switch {
		case i > 0 || ip != corev1.ClusterIPNone:
			errs = append(errs, utilvalidation.IsValidIPForLegacyField(path.Index(i), ip, true, had)...)
		case len(s.ClusterIPs) > 1:
			errs = append(errs, field.Invalid(path, s.ClusterIPs, "'None' must be the first and only value"))
		}
	}
	bad := len(errs) > 0
	if len(s.ClusterIPs) > 2 {
		errs = append(errs, field.Invalid(path, s.ClusterIPs, "may only hold up to 2 values"))
	}
	if bad || headless(s) {
		return errs
	}
	if both, err := netutils.IsDualStackIPStrings(s.ClusterIPs); len(s.ClusterIPs) > 1 && (err != nil || !both) {
		errs = append(errs, field.Invalid(path, s.ClusterIPs, "may specify no more than one IP for each IP family"))
	}
	for i := range min(len(s.ClusterIPs), len(s.IPFamilies)) {
		is6, f := netutils.IsIPv6String(s.ClusterIPs[i]), s.IPFamilies[i]
		if f == corev1.IPv4Protocol && is6 || f == corev1.IPv6Protocol && !is6 {
			errs = append(errs, field.Invalid(path.Index(i), s.ClusterIPs[i],
				fmt.Sprintf("expected an %s value as indicated by `ipFamilies[%d]`", f, i)))
		}
	}
	return errs
}

// validateBalancer checks what only a balancer has. One path begins with a capital letter: clients know it so.
func validateBalancer(s *corev1.ServiceSpec) (errs field.ErrorList) {
	add := func(list ...*field.Error) { errs = append(errs, list...) }
	balanced, only := s.Type == corev1.ServiceTypeLoadBalancer, onlyBalanced
	if at := specPath.Child("LoadBalancerSourceRanges"); len(s.LoadBalancerSourceRanges) > 0 {
		if !balanced {
			add(field.Forbidden(at, only))
		}
		for i, r := range s.LoadBalancerSourceRanges {
			add(utilvalidation.IsValidCIDRForLegacyField(at.Index(i), strings.TrimSpace(r), true, nil)...)
		}
	}
	if s.AllocateLoadBalancerNodePorts != nil && !balanced {
		add(field.Forbidden(specPath.Child("allocateLoadBalancerNodePorts"), only))
	}
	return append(errs, checkClass(s)...)
}

// checkClass checks the class of a load balancer. An update is held to it twice, as upstream holds it.
func checkClass(s *corev1.ServiceSpec) field.ErrorList {
	switch c, at := s.LoadBalancerClass, specPath.Child("loadBalancerClass"); {
	case c == nil:
		return nil
	case s.Type == corev1.ServiceTypeLoadBalancer:
		return rule.Format(*c, at, utilvalidation.IsQualifiedName)
	default:
		return field.ErrorList{field.Forbidden(at, onlyBalanced)}
	}
}

// validateTraffic checks who gets traffic, and from where. A missing port for health checks is the server's to fill.
func validateTraffic(s *corev1.ServiceSpec) (errs field.ErrorList) {
	add := func(list ...*field.Error) { errs = append(errs, list...) }
	at := specPath.Child("externalTrafficPolicy")
	switch {
	case external(s):
		add(rule.Chosen(s.ExternalTrafficPolicy, at, corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)...)
	case s.ExternalTrafficPolicy != "":
		add(field.Invalid(at, s.ExternalTrafficPolicy, "may only be set for externally-accessible services"))
	}
	if p, at := s.HealthCheckNodePort, specPath.Child("healthCheckNodePort"); p != 0 {
		if hasHealthPort(s) {
			add(rule.Says(utilvalidation.IsValidPortNum(int(p)), p, at)...)
		} else {
			add(field.Invalid(at, p, "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"))
		}
	}
	add(rule.AmongPtr(s.InternalTrafficPolicy, specPath.Child("internalTrafficPolicy"),
		corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal)...)
	if d := s.TrafficDistribution; d != nil {
		add(rule.Listed(*d, specPath.Child("trafficDistribution"), corev1.ServiceTrafficDistributionPreferClose,
			corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode)...)
	}
	return errs
}

func validateServiceUpdate(s, old *corev1.ServiceSpec) (errs field.ErrorList) {
	add := func(list ...*field.Error) { errs = append(errs, list...) }
	if hasClusterIP(s) && hasClusterIP(old) && !(headless(s) && headless(old)) {
		add(clusterIPsKept(s, old)...)
	}
	if s.Type == corev1.ServiceTypeLoadBalancer && old.Type == s.Type {
		if !resource.Same(s.LoadBalancerClass, old.LoadBalancerClass) {
			add(field.Invalid(specPath.Child("loadBalancerClass"), s.LoadBalancerClass, "may not change once set"))
		}
	}
	add(checkClass(s)...)
	if hasHealthPort(s) && hasHealthPort(old) && old.HealthCheckNodePort != 0 && s.HealthCheckNodePort != old.HealthCheckNodePort {
		add(field.Forbidden(specPath.Child("healthCheckNodePort"), "field is immutable"))
	}
	return errs
}

// clusterIPsKept: the first address stays as long as the service; a second one may come and go, by the policy.
func clusterIPsKept(s, old *corev1.ServiceSpec) (errs field.ErrorList) {
	path := specPath.Child("clusterIPs")
	is, was := s.ClusterIPs, old.ClusterIPs
	for i := range min(len(is), len(was)) {
		if is[i] != was[i] {
			errs = append(errs, field.Invalid(path.Index(i), is, "may not change once set"))
		}
	}
	single := s.IPFamilyPolicy == nil || *s.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack
	at := specPath.Child("ipFamilyPolicy")
	switch {
	case len(is) == 0 && len(was) > 0:
		errs = append(errs, field.Invalid(path.Index(0), is, "primary clusterIP can not be unset"))
	case len(is) == 1 && len(was) == 2 && (!single || s.IPFamilyPolicy == nil):
		errs = append(errs, field.Invalid(at, s.IPFamilyPolicy, "must be set to 'SingleStack' when releasing the secondary clusterIP"))
	case len(is) == 2 && len(was) == 1 && single:
		errs = append(errs, field.Invalid(at, s.IPFamilyPolicy,
			"must be set to 'PreferDualStack' or 'RequireDualStack' when adding a secondary clusterIP"))
	}
	return errs
}

func validateServiceStatus(o, _ *corev1.Service) field.ErrorList {
	return ValidateBalancerStatus(o.Status.LoadBalancer.Ingress, o.Spec.Type == corev1.ServiceTypeLoadBalancer,
		statusPath.Child("loadBalancer", "ingress"))
}

// ValidateBalancerStatus checks where a balancer answers.
func ValidateBalancerStatus(list []corev1.LoadBalancerIngress, balanced bool, path *field.Path) (errs field.ErrorList) {
	add := func(list ...*field.Error) { errs = append(errs, list...) }
	if !balanced && len(list) > 0 {
		add(field.Forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'"))
		return errs
	}
	for i, in := range list {
		at := path.Index(i)
		if in.IP != "" {
			add(validIP(in.IP, at.Child("ip"))...)
		}
		switch {
		case in.IP != "" && in.IPMode == nil:
			add(field.Required(at.Child("ipMode"), "must be specified when `ip` is set"))
		case in.IP == "" && in.IPMode != nil:
			add(field.Forbidden(at.Child("ipMode"), "may not be specified when `ip` is not set"))
		default:
			add(rule.AmongPtr(in.IPMode, at.Child("ipMode"), corev1.LoadBalancerIPModeVIP, corev1.LoadBalancerIPModeProxy)...)
		}
		if in.Hostname != "" {
			add(rule.Format(in.Hostname, at.Child("hostname"), rule.Subdomain)...)
			if netutils.ParseIPSloppy(in.Hostname) != nil {
				add(field.Invalid(at.Child("hostname"), in.Hostname, "must be a DNS name, not an IP address"))
			}
		}
	}
	return errs
}
