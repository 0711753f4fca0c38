package core

import (
	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// validateEndpoints does not judge subsets again that stay as they are.
func validateEndpoints(e, old *corev1.Endpoints) (errs field.ErrorList) {
	if old != nil && resource.Same(e.Subsets, old.Subsets) {
		return nil
	}
	path := field.NewPath("subsets")
	for i := range e.Subsets {
		s, at := &e.Subsets[i], path.Index(i)
		if len(s.Addresses) == 0 && len(s.NotReadyAddresses) == 0 {
			errs = append(errs, field.Required(at, "must specify `addresses` or `notReadyAddresses`"))
		}
		for j := range s.Addresses {
			errs = append(errs, validateAddress(&s.Addresses[j], at.Child("addresses").Index(j))...)
		}
		for j := range s.NotReadyAddresses {
			errs = append(errs, validateAddress(&s.NotReadyAddresses[j], at.Child("notReadyAddresses").Index(j))...)
		}
		for j := range s.Ports {
			errs = append(errs, validateEndpointPort(&s.Ports[j], len(s.Ports) > 1, at.Child("ports").Index(j))...)
		}
	}
	return errs
}

// validateAddress refuses loopback and link-local addresses (reachable): through them a client would reach the node that forwards it.
func validateAddress(a *corev1.EndpointAddress, path *field.Path) field.ErrorList {
	errs := validIP(a.IP, path.Child("ip"))
	if a.Hostname != "" {
		errs = append(errs, rule.Format(a.Hostname, path.Child("hostname"), rule.Label)...)
	}
	if a.NodeName != nil {
		errs = append(errs, rule.Format(*a.NodeName, path.Child("nodeName"), rule.Subdomain)...)
	}
	return append(errs, rule.Reachable(a.IP, path.Child("ip"))...)
}

// validateEndpointPort needs a name where there are several, by which a Service finds its own.
func validateEndpointPort(p *corev1.EndpointPort, named bool, path *field.Path) (errs field.ErrorList) {
	switch {
	case p.Name != "":
		errs = append(errs, rule.Format(p.Name, path.Child("name"), rule.Label)...)
	case named:
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	errs = append(errs, rule.Says(utilvalidation.IsValidPortNum(int(p.Port)), p.Port, path.Child("port"))...)
	errs = append(errs, rule.Chosen(p.Protocol, path.Child("protocol"), corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)...)
	if p.AppProtocol != nil {
		errs = append(errs, rule.Format(*p.AppProtocol, path.Child("appProtocol"), utilvalidation.IsQualifiedName)...)
	}
	return errs
}
