package discovery

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// The limits of a slice.
const (
	maxEndpoints = 1000
	maxAddresses = 100
	maxPorts     = 20000
	maxTopology  = 16
	maxHints     = 8
)

func validateSlice(on *features.Set, s, old *discoveryv1.EndpointSlice) (errs field.ErrorList) {
	path := field.NewPath("addressType")
	errs = append(errs, rule.Chosen(s.AddressType, path, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6,
		discoveryv1.AddressTypeFQDN)...)
	errs = append(errs, validatePorts(s.Ports, field.NewPath("ports"))...)
	if old == nil || !resource.Same(s.Endpoints, old.Endpoints) { // endpoints that nobody changed may stay as they are
		needed := ""
		if !on.AtLeast(37) {
			needed = "must contain at least 1 address"
		}
		errs = append(errs, endpoints(s, old, needed, field.NewPath("endpoints"))...)
	}
	if old != nil && s.AddressType != old.AddressType {
		errs = append(errs, field.Invalid(path, nil, "field is immutable"))
	}
	return errs
}

func endpoints(s, old *discoveryv1.EndpointSlice, needed string, path *field.Path) (errs field.ErrorList) {
	if len(s.Endpoints) > maxEndpoints {
		return field.ErrorList{field.TooMany(path, len(s.Endpoints), maxEndpoints)}
	}
	var before []string
	if old != nil {
		for _, e := range old.Endpoints {
			before = append(before, e.Addresses...)
		}
	}
	for i, e := range s.Endpoints {
		if len(e.Addresses) == 0 {
			errs = append(errs, field.Required(path.Index(i).Child("addresses"), needed))
		}
		errs = append(errs, endpoint(e, s.AddressType, before, path.Index(i))...)
	}
	return errs
}

// endpoint checks one endpoint; addresses that were there before may stay as they are.
func endpoint(e discoveryv1.Endpoint, typ discoveryv1.AddressType, before []string, path *field.Path) (errs field.ErrorList) {
	at := path.Child("addresses")
	if len(e.Addresses) > maxAddresses {
		errs = append(errs, field.TooMany(at, len(e.Addresses), maxAddresses))
	}
	for i, a := range e.Addresses {
		errs = append(errs, address(a, typ, before, at, at.Index(i))...)
	}
	if e.NodeName != nil {
		errs = append(errs, rule.Says(validation.NameIsDNSSubdomain(*e.NodeName, false), *e.NodeName, path.Child("nodeName"))...)
	}
	errs = append(errs, topology(e.DeprecatedTopology, path.Child("deprecatedTopology"))...)
	if e.Hostname != nil {
		errs = append(errs, rule.Format(*e.Hostname, path.Child("hostname"), rule.Label)...)
	}
	if e.Hints != nil {
		errs = append(errs, hints(e.Hints, path.Child("hints"))...)
	}
	return errs
}

func address(a string, typ discoveryv1.AddressType, before []string, list, at *field.Path) field.ErrorList {
	switch typ {
	case discoveryv1.AddressTypeFQDN:
		return utilvalidation.IsFullyQualifiedDomainName(at, a)
	case discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6:
	default:
		return nil
	}
	errs := utilvalidation.IsValidIPForLegacyField(at, a, true, before)
	if len(errs) > 0 {
		return errs
	}
	switch {
	case typ == discoveryv1.AddressTypeIPv4 && !netutils.IsIPv4String(a):
		errs = append(errs, field.Invalid(list, a, "must be an IPv4 address"))
	case typ == discoveryv1.AddressTypeIPv6 && !netutils.IsIPv6String(a):
		errs = append(errs, field.Invalid(list, a, "must be an IPv6 address"))
	}
	return append(errs, rule.Reachable(a, at)...)
}

func topology(t map[string]string, path *field.Path) field.ErrorList {
	errs := metavalidation.ValidateLabels(t, path)
	if len(t) > maxTopology {
		errs = append(errs, field.TooMany(path, len(t), maxTopology))
	}
	if _, set := t[corev1.LabelTopologyZone]; set {
		errs = append(errs, field.InternalError(path.Key(corev1.LabelTopologyZone), errors.New("reserved key was not removed in conversion")))
	}
	return errs
}

func hints(h *discoveryv1.EndpointHints, path *field.Path) (errs field.ErrorList) {
	zones, nodes := path.Child("forZones"), path.Child("forNodes")
	if len(h.ForZones) > maxHints {
		return field.ErrorList{field.TooMany(zones, len(h.ForZones), maxHints)}
	}
	seen := map[string]bool{}
	for i, z := range h.ForZones {
		errs = append(errs, once(seen, z.Name, zones.Index(i).Child("name"), utilvalidation.IsValidLabelValue)...)
	}
	if len(h.ForNodes) > maxHints {
		return append(errs, field.TooMany(nodes, len(h.ForNodes), maxHints))
	}
	clear(seen)
	for i, n := range h.ForNodes {
		errs = append(errs, once(seen, n.Name, nodes.Index(i).Child("name"), rule.Subdomain)...)
	}
	return errs
}

// once checks a name that a list has once.
func once(seen map[string]bool, name string, at *field.Path, format func(string) []string) (errs field.ErrorList) {
	if seen[name] {
		errs = append(errs, field.Duplicate(at, name))
	}
	seen[name] = true
	return append(errs, rule.Format(name, at, format)...)
}

func validatePorts(list []discoveryv1.EndpointPort, path *field.Path) (errs field.ErrorList) {
	if len(list) > maxPorts {
		return field.ErrorList{field.TooMany(path, len(list), maxPorts)}
	}
	seen := map[string]bool{}
	for i, p := range list {
		at := path.Index(i)
		name := ""
		if p.Name != nil {
			name = *p.Name
		}
		if name != "" {
			errs = append(errs, rule.Format(name, at.Child("name"), rule.Label)...)
		}
		if seen[name] {
			errs = append(errs, field.Duplicate(at.Child("name"), p.Name))
		}
		seen[name] = true
		if p.Protocol == nil {
			errs = append(errs, field.Required(at.Child("protocol"), ""))
		} else {
			errs = append(errs, rule.Among(*p.Protocol, at.Child("protocol"), corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)...)
		}
		if p.AppProtocol != nil {
			errs = append(errs, rule.Format(*p.AppProtocol, at.Child("appProtocol"), utilvalidation.IsQualifiedName)...)
		}
	}
	return errs
}
