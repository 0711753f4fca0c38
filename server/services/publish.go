package services

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
)

// kubernetes is the Service by which pods find the API server.
const kubernetes = "kubernetes"

// ServiceAddress is the cluster IP of the Service default/kubernetes: the first of the default range.
func (s *Allocator) ServiceAddress() netip.Addr { return s.ranges[0].at(0) }

// PublishEndpoints makes the Service default/kubernetes lead to the addresses at which API servers answer, which all
// have one port. It replaces what was published before.
func (s *Allocator) PublishEndpoints(ctx context.Context, at []netip.AddrPort) error {
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

func (s *Allocator) publish(ctx context.Context, want resource.Object) error {
	k, ok := s.core.Kinds.Kind(want.GetObjectKind().GroupVersionKind())
	if !ok {
		return nil
	}
	r := server.ServerRequest(k, want.GetNamespace(), want.GetName())
	old, err := s.core.Live(ctx, k, r.Namespace, r.Name)
	if err != nil {
		return err
	}
	if old == nil {
		_, err := s.ops.Create(ctx, r, want)
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}
	next := resource.Clone(old)
	next.SetResourceVersion("") // other servers may do the same at this moment
	switch n := next.(type) {
	case *corev1.Service: // its address and what an administrator changed stay
		n.Spec.Ports = want.(*corev1.Service).Spec.Ports
	case *corev1.Endpoints: //nolint:staticcheck // old clients read it
		n.Subsets = want.(*corev1.Endpoints).Subsets //nolint:staticcheck // as above
	case *discoveryv1.EndpointSlice:
		w := want.(*discoveryv1.EndpointSlice)
		n.Endpoints, n.Ports = w.Endpoints, w.Ports
	}
	_, _, err = s.ops.Update(ctx, r, next)
	return err
}

func (s *Allocator) service(at []netip.AddrPort) resource.Object {
	ip := s.ServiceAddress().String()
	single := corev1.IPFamilyPolicySingleStack
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: kubernetes,
			Labels: map[string]string{"component": "apiserver", "provider": kubernetes}},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: ip, ClusterIPs: []string{ip},
			SessionAffinity: corev1.ServiceAffinityNone, IPFamilyPolicy: &single,
			Ports: []corev1.ServicePort{{Name: "https", Port: 443, Protocol: corev1.ProtocolTCP,
				TargetPort: intstr.FromInt32(int32(at[0].Port()))}}},
	}
	svc.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Service"))
	return svc
}

func endpoints(at []netip.AddrPort) resource.Object {
	port := corev1.EndpointPort{Name: "https", Port: int32(at[0].Port()), Protocol: corev1.ProtocolTCP} //nolint:staticcheck // as above
	subset := corev1.EndpointSubset{Ports: []corev1.EndpointPort{port}}                                 //nolint:staticcheck // as above
	for _, a := range at {
		subset.Addresses = append(subset.Addresses, corev1.EndpointAddress{IP: a.Addr().String()}) //nolint:staticcheck // as above
	}
	e := &corev1.Endpoints{ //nolint:staticcheck // as above
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: kubernetes,
			Labels: map[string]string{discoveryv1.LabelSkipMirror: "true"}},
		Subsets: []corev1.EndpointSubset{subset}} //nolint:staticcheck // as above
	e.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Endpoints"))
	return e
}

func slice(at []netip.AddrPort) resource.Object {
	name, port, protocol, yes := "https", int32(at[0].Port()), corev1.ProtocolTCP, true
	e := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: kubernetes,
			Labels: map[string]string{discoveryv1.LabelServiceName: kubernetes}},
		AddressType: discoveryv1.AddressType(familyOf(at[0].Addr())),
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}},
	}
	for _, a := range at {
		if familyOf(a.Addr()) == familyOf(at[0].Addr()) {
			e.Endpoints = append(e.Endpoints, discoveryv1.Endpoint{Addresses: []string{a.Addr().String()},
				Conditions: discoveryv1.EndpointConditions{Ready: &yes}})
		}
	}
	e.SetGroupVersionKind(discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"))
	return e
}
