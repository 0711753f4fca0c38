package core

import (
	"fmt"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds/cell"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// Endpoints declares the kind.
var Endpoints = &resource.Def[*corev1.Endpoints]{
	GVK: gvk("Endpoints"), Plural: "endpoints", Short: []string{"ep"}, Namespaced: true,
	Storage: "services/endpoints", CreateOnUpdate: true,
	Deprecated: "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
	Default:    defaultEndpoints, Validate: resource.Serving(validateEndpoints),
	Warn: resource.Serving(warnEndpoints),
	Columns: []resource.Column[*corev1.Endpoints]{
		resource.Col("Endpoints", "string", func(e *corev1.Endpoints) any { return endpointList(e) }),
		resource.Age[*corev1.Endpoints](),
	},
}

func defaultEndpoints(e *corev1.Endpoints) {
	for i := range e.Subsets {
		for j := range e.Subsets[i].Ports {
			rule.FillZero(&e.Subsets[i].Ports[j].Protocol, corev1.ProtocolTCP)
		}
	}
}

// endpointList is the column ENDPOINTS: the first three and how many more.
func endpointList(e *corev1.Endpoints) string {
	if len(e.Subsets) == 0 {
		return cell.None
	}
	var list []string
	for _, s := range e.Subsets {
		if len(s.Ports) == 0 {
			for _, a := range s.Addresses {
				list = append(list, a.IP)
			}
		}
		for _, p := range s.Ports {
			for _, a := range s.Addresses {
				list = append(list, net.JoinHostPort(a.IP, strconv.Itoa(int(p.Port))))
			}
		}
	}
	return cell.Few(list, func(n int) string { return fmt.Sprintf(" + %d more...", n) })
}
