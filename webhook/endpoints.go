package webhook

import (
	"fmt"
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/discovery"
	"github.com/kloop-dev/kloop/resource"
)

// Endpoints returns the addresses behind a port of a service: its ready endpoints, or the external name. It fails
// for a service that is missing or has no such port; no address is no error. Addresses of pods on simulated nodes are not
// among them: they mean nothing outside of the simulation, or something else. A service with no others fails.
//
// Unlike Kubernetes, services are called at their endpoints, not at the cluster IP: the server need not run on a node.
func Endpoints(read resource.Reader, ns, name string, port int32) ([]string, error) {
	svc := resource.Get(read, core.Services, ns, name)
	if svc == nil {
		return nil, fmt.Errorf("service %q not found", name)
	}
	if svc.Spec.Type == corev1.ServiceTypeExternalName {
		return []string{address(svc.Spec.ExternalName, port)}, nil
	}
	at := slices.IndexFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == port })
	if at < 0 {
		return nil, fmt.Errorf("no service port %d found for service %q", port, name)
	}
	var list []string
	simulated := 0
	for o := range read.ByLabel(discovery.EndpointSlices, ns, discoveryv1.LabelServiceName, name) {
		if slice, ok := o.(*discoveryv1.EndpointSlice); ok {
			real := called(read, slice)
			simulated += len(slice.Endpoints) - len(real.Endpoints)
			hosts, number := Ready(real, svc.Spec.Ports[at].Name)
			for _, h := range hosts {
				list = append(list, address(h, number))
			}
		}
	}
	if len(list) == 0 && simulated > 0 {
		return nil, fmt.Errorf("the pods of service %q are on simulated nodes, and nobody answers there: run what is to be called outside, "+
			"and name its address in an EndpointSlice of a service without a selector, or its URL", name)
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// called is the slice without the endpoints that are pods on simulated nodes.
func called(read resource.Reader, slice *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	fake := func(e discoveryv1.Endpoint) bool {
		return e.NodeName != nil && core.Simulated(resource.Get(read, core.Nodes, "", *e.NodeName))
	}
	if !slices.ContainsFunc(slice.Endpoints, fake) {
		return slice
	}
	real := *slice
	real.Endpoints = slices.DeleteFunc(slices.Clone(slice.Endpoints), fake)
	return &real
}

func address(host string, port int32) string { return net.JoinHostPort(host, strconv.Itoa(int(port))) }

// Ready lists the hosts of a slice's ready endpoints and the number of the named port; a slice without the port has
// no hosts.
func Ready(slice *discoveryv1.EndpointSlice, port string) (hosts []string, number int32) {
	at := slices.IndexFunc(slice.Ports, func(p discoveryv1.EndpointPort) bool {
		return p.Port != nil && (p.Name == nil && port == "" || p.Name != nil && *p.Name == port)
	})
	if at < 0 {
		return nil, 0
	}
	for _, ep := range slice.Endpoints {
		if (ep.Conditions.Ready == nil || *ep.Conditions.Ready) && len(ep.Addresses) > 0 {
			hosts = append(hosts, ep.Addresses[0])
		}
	}
	return hosts, *slice.Ports[at].Port
}
