package cluster_test

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/resource"
)

// poolsText is the example of MetalLB's documentation, with an address of each family.
const poolsText = `
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: first-pool, namespace: metallb-system}
spec:
  addresses: [192.168.10.0/24, 192.168.9.1-192.168.9.5, "fc00:f853:0ccd:e799::/124"]
---
apiVersion: metallb.io/v1beta1
kind: L2Advertisement
metadata: {name: example, namespace: metallb-system}
spec:
  ipAddressPools: [first-pool]
`

// TestPools: in the mode pools MetalLB's manifests are taken, and a Service has an address from its pool that nodes may answer for; when
// MetalLB itself arrives, its Services are left to it.
func TestPools(t *testing.T) {
	c := start(t, cluster.Config{LoadBalancer: "pools", SimNodes: 2})
	dyn, err := dynamic.NewForConfig(config(t, c))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range strings.Split(poolsText, "---") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		plural := schema.GroupVersionResource{Group: "metallb.io", Version: "v1beta1", Resource: strings.ToLower(u.GetKind()) + "s"}
		eventually(t, "the kinds are served", holds(func() bool {
			_, err := dyn.Resource(plural).Namespace(u.GetNamespace()).Create(t.Context(), u,
				metav1.CreateOptions{FieldValidation: "Strict"})
			if err != nil && !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
			return err == nil
		}))
	}
	cl := c.Client()
	create := func(k resource.Kind, obj resource.Object) {
		t.Helper()
		if _, err := cl.Create(t.Context(), k, obj); err != nil {
			t.Fatal(err)
		}
	}
	create(kinds.Services, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}}})
	port := int32(8080)
	create(kinds.EndpointSlices, &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web",
		Labels: map[string]string{discoveryv1.LabelServiceName: "web"}}, AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Port: &port}}, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.9.9.9"}}}})
	web := func() *corev1.Service { return resource.Get(cl.Read(), kinds.Services, "default", "web") }
	condition := func(typ string) (reason string) {
		for _, cond := range web().Status.Conditions {
			if cond.Type == typ {
				reason = cond.Reason
			}
		}
		return reason
	}
	eventually(t, "the service has an address, for which nodes may answer", holds(func() bool {
		in := web().Status.LoadBalancer.Ingress
		return len(in) == 1 && in[0].IP == "192.168.10.0" && condition(wellknown.AddressCondition) == wellknown.LBPoolAddress &&
			condition(wellknown.AnnouncedCondition) == wellknown.LBCandidates &&
			web().Annotations["metallb.io/ip-allocated-from-pool"] == "first-pool"
	}))
	eventually(t, "there is its lease", holds(func() bool {
		l := resource.Get(cl.Read(), kinds.Leases, wellknown.AnnounceSpace, "l2-192.168.10.0")
		return l != nil && strings.Contains(l.Annotations[wellknown.AnnouncedCandidates], `"node":"sim-1"`) &&
			l.Annotations[wellknown.AnnouncedServices] == "default/web"
	}))
	answeredBy(t, c, dyn)
	gaps, err := dyn.Resource(schema.GroupVersionResource{Group: "convergence.kloop.dev", Version: "v1alpha1", Resource: "gaps"}).
		Namespace(wellknown.AnnounceSpace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(gaps.Items) > 0 {
		t.Errorf("a pool and its advertisement lack nothing, and are said to: %+v %v", gaps, err)
	}
	pools := schema.GroupVersionResource{Group: "metallb.io", Version: "v1beta1", Resource: "ipaddresspools"}
	eventually(t, "the pool says what is in use", holds(func() bool {
		u, err := dyn.Resource(pools).Namespace(wellknown.AnnounceSpace).Get(t.Context(), "first-pool", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		used, _, _ := unstructured.NestedInt64(u.Object, "status", "assignedIPv4")
		free, _, _ := unstructured.NestedInt64(u.Object, "status", "availableIPv4")
		return used == 1 && free == 260
	}))
	eventually(t, "the lease is let go", holds(func() bool {
		l := resource.Clone(resource.Get(cl.Read(), kinds.Leases, wellknown.AnnounceSpace, "l2-192.168.10.0"))
		l.Spec.HolderIdentity = new(string)
		_, err := cl.Update(t.Context(), kinds.Leases, l, "")
		return err == nil
	}))
	app := map[string]string{"app": "metallb", "component": "controller"}
	create(kinds.Deployments, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: wellknown.AnnounceSpace, Name: "controller",
		Labels: app},
		Spec: appsv1.DeploymentSpec{Replicas: new(int32), Selector: &metav1.LabelSelector{MatchLabels: app},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: app},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "controller", Image: "quay.io/metallb/controller:v0.16.1"}}}}}})
	eventually(t, "MetalLB has the services to itself", holds(func() bool {
		return len(web().Status.LoadBalancer.Ingress) == 0 && condition(wellknown.AddressCondition) == "" &&
			resource.Get(cl.Read(), kinds.Leases, wellknown.AnnounceSpace, "l2-192.168.10.0") == nil
	}))
}

// holds makes a condition of a question that can't fail.
func holds(ok func() bool) func(context.Context) (bool, error) {
	return func(context.Context) (bool, error) { return ok(), nil }
}

// answeredBy takes the Lease as a node's agent does: MetalLB's ServiceL2Status says so. A peer for BGP hears that no node speaks to
// it: these nodes are simulated.
func answeredBy(t *testing.T, c *cluster.Cluster, dyn dynamic.Interface) {
	t.Helper()
	holder := "sim-1"
	eventually(t, "the lease is taken", holds(func() bool {
		l := resource.Clone(resource.Get(c.Client().Read(), kinds.Leases, wellknown.AnnounceSpace, "l2-192.168.10.0"))
		l.Spec.HolderIdentity = &holder
		_, err := c.Client().Update(t.Context(), kinds.Leases, l, "")
		return err == nil
	}))
	all := func(version, plural string) []unstructured.Unstructured {
		list, err := dyn.Resource(schema.GroupVersionResource{Group: "metallb.io", Version: version, Resource: plural}).
			Namespace(wellknown.AnnounceSpace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return list.Items
	}
	eventually(t, "its ServiceL2Status", holds(func() bool {
		list := all("v1beta1", "servicel2statuses")
		if len(list) != 1 {
			return false
		}
		st, _, _ := unstructured.NestedStringMap(list[0].Object, "status")
		return st["node"] == holder && st["serviceName"] == "web" && st["serviceNamespace"] == "default"
	}))
	peer := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "metallb.io/v1beta2", "kind": "BGPPeer",
		"metadata": map[string]any{"name": "router", "namespace": wellknown.AnnounceSpace},
		"spec":     map[string]any{"myASN": int64(64500), "peerASN": int64(64501), "peerAddress": "10.0.0.1"}}}
	if _, err := dyn.Resource(schema.GroupVersionResource{Group: "metallb.io", Version: "v1beta2", Resource: "bgppeers"}).
		Namespace(wellknown.AnnounceSpace).Create(t.Context(), peer, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the peer hears that no node speaks to it", holds(func() bool {
		list, _, _ := unstructured.NestedSlice(all("v1beta2", "bgppeers")[0].Object, "status", "conditions")
		return len(list) == 1 && list[0].(map[string]any)["reason"] == "NotEstablished"
	}))
}
