// Package discovery declares the kind that says where the pods of a service answer.
package discovery

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/cell"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// EndpointSlices declares the kind.
var EndpointSlices = &resource.Def[*discoveryv1.EndpointSlice]{
	GVK: discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), Plural: "endpointslices", Namespaced: true, Generation: true,
	Quirks: resource.Quirks{MetaErrorsOnce: true,
		Declared: []string{"Required endpoints[*].addresses", "TooMany endpoints[*].addresses", "Required addressType",
			"NotSupported addressType", "Invalid addressType"}},
	Default: defaultSlice, Prepare: resource.Serving(prepareSlice),
	Gated: resource.Gated[*discoveryv1.EndpointSlice]{Validate: resource.Serving(validateSlice)},
	Warn:  resource.Serving(warnSlice),
	Columns: []resource.Column[*discoveryv1.EndpointSlice]{
		resource.Col("AddressType", "string", func(s *discoveryv1.EndpointSlice) any { return string(s.AddressType) }),
		resource.Col("Ports", "string", func(s *discoveryv1.EndpointSlice) any { return few(ports(s.Ports)) }),
		resource.Col("Endpoints", "string", func(s *discoveryv1.EndpointSlice) any { return few(addresses(s.Endpoints)) }),
		resource.Age[*discoveryv1.EndpointSlice](),
	},
}

func few(list []string) string {
	text := cell.Few(list, func(n int) string { return " + " + strconv.Itoa(n) + " more..." })
	return cell.Or(text, cell.Unset)
}

func ports(list []discoveryv1.EndpointPort) (out []string) {
	for _, p := range list {
		switch {
		case p.Port != nil:
			out = append(out, strconv.Itoa(int(*p.Port)))
		case p.Name != nil:
			out = append(out, *p.Name)
		default:
			out = append(out, "*")
		}
	}
	return out
}

func addresses(list []discoveryv1.Endpoint) (out []string) {
	for _, e := range list {
		out = append(out, e.Addresses...)
	}
	return out
}

func defaultSlice(s *discoveryv1.EndpointSlice) {
	for i := range s.Ports {
		rule.Fill(&s.Ports[i].Name, "")
		rule.Fill(&s.Ports[i].Protocol, corev1.ProtocolTCP)
	}
}

// prepareSlice counts changes of labels as changes, too: they say whose the slice is. Empty lists are stored as none.
// The topology of old is not written any more: it goes as soon as the endpoints change.
func prepareSlice(s, old *discoveryv1.EndpointSlice) {
	if old == nil || !resource.Same(s.Endpoints, old.Endpoints) {
		for i := range s.Endpoints {
			s.Endpoints[i].DeprecatedTopology = nil
		}
	}
	if old != nil && !resource.Same(s.Labels, old.Labels) {
		s.Generation = old.Generation + 1
	}
}

// byControllers are the values of the label that says who keeps a slice which nobody need be warned of: what these
// write was put right.
var byControllers = []string{"endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"}

func warnSlice(s, old *discoveryv1.EndpointSlice) (list []string) {
	if old == nil && s.AddressType == discoveryv1.AddressTypeFQDN {
		list = append(list, "spec.addressType: FQDN endpoints are deprecated")
	}
	if slices.Contains(byControllers, s.Labels[discoveryv1.LabelManagedBy]) {
		return list
	}
	for i, e := range s.Endpoints {
		for k, a := range e.Addresses {
			list = append(list, validation.GetWarningsForIP(field.NewPath("endpoints").Index(i).Child("addresses").Index(k), a)...)
		}
	}
	return list
}
