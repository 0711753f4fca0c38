package server

import (
	"context"
	"fmt"
	"net/netip"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kloop-dev/kloop/resource"
)

// kubernetes is the Service by which pods find the API server.
const kubernetes = "kubernetes"

// ServiceAddress is the cluster IP of the Service default/kubernetes: the first of the default range.
func (s *Server) ServiceAddress() netip.Addr { return s.alloc.ranges[0].at(0) }

// Publish makes the Service default/kubernetes lead to the addresses at which API servers answer, which all
// have one port. It replaces what was published before.
func (s *Server) Publish(ctx context.Context, at []netip.AddrPort) error {
	if len(at) == 0 {
		return nil
	}
	for _, want := range []resource.Object{s.service(at), endpoints(at), slice(at)} {
		if err := s.publish(ctx, want); err != nil {
			return fmt.Errorf("publish the address of the API server: %w", err)
		}
	}
	return nil
}

func (s *Server) publish(ctx context.Context, want resource.Object) error {
	k, ok := s.Kinds.Kind(want.GetObjectKind().GroupVersionKind())
	if !ok {
		return nil
	}
	r := s.myself(k, want.GetNamespace(), want.GetName())
	old, err := s.live(ctx, k, r.Namespace, r.Name)
	if err != nil {
		return err
	}
	if old == nil {
		_, err := s.Create(ctx, r, want)
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}
	next := resource.Clone(old)
	next.SetResourceVersion("") // other servers may do the same at this moment
	switch n := next.(type) {
	case *core.Service: // its address and what an administrator changed stay
		n.Spec.Ports = want.(*core.Service).Spec.Ports
	case *core.Endpoints: //nolint:staticcheck // old clients read it
		n.Subsets = want.(*core.Endpoints).Subsets //nolint:staticcheck // as above
	case *discovery.EndpointSlice:
		w := want.(*discovery.EndpointSlice)
		n.Endpoints, n.Ports = w.Endpoints, w.Ports
	}
	_, _, err = s.Update(ctx, r, next)
	return err
}

func (s *Server) service(at []netip.AddrPort) resource.Object {
	ip := s.ServiceAddress().String()
	svc := &core.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: kubernetes,
			Labels: map[string]string{"component": "apiserver", "provider": kubernetes}},
		Spec: core.ServiceSpec{Type: core.ServiceTypeClusterIP, ClusterIP: ip, ClusterIPs: []string{ip},
			SessionAffinity: core.ServiceAffinityNone,
			Ports: []core.ServicePort{{Name: "https", Port: 443, Protocol: core.ProtocolTCP,
				TargetPort: intstr.FromInt32(int32(at[0].Port()))}}},
	}
	svc.SetGroupVersionKind(core.SchemeGroupVersion.WithKind("Service"))
	return svc
}

func endpoints(at []netip.AddrPort) resource.Object {
	port := core.EndpointPort{Name: "https", Port: int32(at[0].Port()), Protocol: core.ProtocolTCP} //nolint:staticcheck // as above
	subset := core.EndpointSubset{Ports: []core.EndpointPort{port}}                                 //nolint:staticcheck // as above
	for _, a := range at {
		subset.Addresses = append(subset.Addresses, core.EndpointAddress{IP: a.Addr().String()}) //nolint:staticcheck // as above
	}
	e := &core.Endpoints{ //nolint:staticcheck // as above
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: kubernetes,
			Labels: map[string]string{discovery.LabelSkipMirror: "true"}},
		Subsets: []core.EndpointSubset{subset}} //nolint:staticcheck // as above
	e.SetGroupVersionKind(core.SchemeGroupVersion.WithKind("Endpoints"))
	return e
}

func slice(at []netip.AddrPort) resource.Object {
	name, port, protocol, yes := "https", int32(at[0].Port()), core.ProtocolTCP, true
	e := &discovery.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: kubernetes,
			Labels: map[string]string{discovery.LabelServiceName: kubernetes}},
		AddressType: discovery.AddressType(familyOf(at[0].Addr())),
		Ports:       []discovery.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}},
	}
	for _, a := range at {
		if familyOf(a.Addr()) == familyOf(at[0].Addr()) {
			e.Endpoints = append(e.Endpoints, discovery.Endpoint{Addresses: []string{a.Addr().String()},
				Conditions: discovery.EndpointConditions{Ready: &yes}})
		}
	}
	e.SetGroupVersionKind(discovery.SchemeGroupVersion.WithKind("EndpointSlice"))
	return e
}
