package server_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/resource"
	allocation "github.com/kloop-dev/kloop/server/services"
)

func service(name string, spec corev1.ServiceSpec) *corev1.Service {
	if spec.Type == "" {
		spec.Type = corev1.ServiceTypeClusterIP
	}
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}

func ports(list ...int32) (out []corev1.ServicePort) {
	for i := 0; i+1 < len(list); i += 2 {
		out = append(out, corev1.ServicePort{Name: fmt.Sprint("p", i), Port: list[i], NodePort: list[i+1], Protocol: corev1.ProtocolTCP})
	}
	return out
}

func TestServiceAddresses(t *testing.T) {
	w := start(t)
	got := create(w, services, service("a", corev1.ServiceSpec{})).Spec
	ip, err := netip.ParseAddr(got.ClusterIP)
	if err != nil || len(got.ClusterIPs) != 1 || got.ClusterIPs[0] != got.ClusterIP || len(got.IPFamilies) != 1 ||
		got.IPFamilies[0] != "IPv4" ||
		*got.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack {
		t.Fatalf("%+v", got)
	}
	if b := ip.As4(); b[2] == 0 {
		t.Errorf("%v is of the part for fixed addresses", ip)
	}
	owner := w.get(ipAddresses, got.ClusterIP).(*networkingv1.IPAddress)
	if f := owner.ManagedFields; len(f) != 1 || f[0].Manager != "kube-apiserver" || !json.Valid(f[0].FieldsV1.Raw) {
		t.Errorf("nobody owns the fields of the address: %v", f)
	}
	if p := owner.Spec.ParentRef; p == nil || p.Name != "a" || p.Namespace != "ns" || p.Resource != "services" ||
		owner.Labels[networkingv1.LabelManagedBy] != "ipallocator.k8s.io" {
		t.Errorf("address %+v", owner)
	}
	for _, x := range []struct{ ip, want string }{
		{got.ClusterIP, "Invalid FieldValueInvalid spec.clusterIPs"}, {"10.97.0.1", "Invalid FieldValueInvalid spec.clusterIPs"},
		{"10.96.0.0", "Invalid FieldValueInvalid spec.clusterIPs"}, {"10.96.255.255", "Invalid FieldValueInvalid spec.clusterIPs"},
		{"10.96.0.10", ""},
	} {
		t.Run(x.ip, func(t *testing.T) {
			_, err := w.Create(t.Context(), w.ask(services, ""), service("b", corev1.ServiceSpec{ClusterIP: x.ip, ClusterIPs: []string{x.ip}}))
			if reason(err) != x.want {
				t.Errorf("%s: %v", x.ip, err)
			}
		})
	}
	if _, _, err := w.delete(services, "a", nil); err != nil || w.get(ipAddresses, got.ClusterIP) != nil {
		t.Errorf("the address of a deleted service stays: %v", err)
	}
}

func TestServiceFamilies(t *testing.T) {
	w := start(t)
	policy := func(p corev1.IPFamilyPolicy) *corev1.IPFamilyPolicy { return &p }
	none := []string{"None"}
	for i, x := range []struct {
		name string
		spec corev1.ServiceSpec
		want string
	}{
		{"headless without a selector", corev1.ServiceSpec{ClusterIP: "None", ClusterIPs: none}, "[None] [IPv4 IPv6] RequireDualStack"},
		{"headless",
			corev1.ServiceSpec{ClusterIP: "None", ClusterIPs: none, Selector: map[string]string{"a": "b"}}, "[None] [IPv4] SingleStack"},
		{"external name", corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "a.b"}, "[] [] "},
		{"prefers two families",
			corev1.ServiceSpec{IPFamilyPolicy: policy(corev1.IPFamilyPolicyPreferDualStack)}, "[ip] [IPv4] PreferDualStack"},
		{"requires two families",
			corev1.ServiceSpec{IPFamilyPolicy: policy(corev1.IPFamilyPolicyRequireDualStack)}, "Invalid FieldValueInvalid spec.ipFamilyPolicy"},
		{"family that is not there",
			corev1.ServiceSpec{IPFamilies: []corev1.IPFamily{"IPv6"}}, "Invalid FieldValueInvalid spec.ipFamilies[0]"},
	} {
		t.Run(x.name, func(t *testing.T) {
			e, err := w.Create(t.Context(), w.ask(services, ""), service(fmt.Sprint("s", i), x.spec))
			got := reason(err)
			if err == nil {
				s := e.Object.(*corev1.Service).Spec
				p := ""
				if s.IPFamilyPolicy != nil {
					p = string(*s.IPFamilyPolicy)
				}
				got = strings.ReplaceAll(fmt.Sprint(s.ClusterIPs, " ", s.IPFamilies, " ", p), s.ClusterIP, "ip")
				if s.ClusterIP == "None" || s.ClusterIP == "" {
					got = fmt.Sprint(s.ClusterIPs, " ", s.IPFamilies, " ", p)
				}
			}
			if got != x.want {
				t.Errorf("%+v: got %q (%v), want %q", x.spec, got, err, x.want)
			}
		})
	}
	dual := start(t, func(c *testcluster.Config) {
		c.Extensions.Network.Services = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00::/108")}
	})
	s := create(dual, services, service("s", corev1.ServiceSpec{IPFamilyPolicy: policy(corev1.IPFamilyPolicyRequireDualStack)})).Spec
	if len(s.ClusterIPs) != 2 || !strings.HasPrefix(s.ClusterIPs[1], "fd00::") || len(s.IPFamilies) != 2 {
		t.Errorf("dual: %+v", s)
	}
	for _, x := range []struct{ patch, want string }{
		{`{"spec":{"ipFamilies":["IPv4"]}}`, "Invalid FieldValueInvalid spec.ipFamilyPolicy"},
		{`{"spec":{"ipFamilies":["IPv4"],"clusterIPs":["` + s.ClusterIP + `"]}}`,
			"Invalid FieldValueInvalid spec.ipFamilyPolicy FieldValueInvalid spec.ipFamilyPolicy"},
		{`{"spec":{"ipFamilyPolicy":"SingleStack","ipFamilies":["IPv6","IPv4"]}}`,
			"Invalid FieldValueInvalid spec.clusterIPs[0] FieldValueInvalid spec.clusterIPs[1]"},
		{`{"metadata":{"labels":{"a":"b c"}},"spec":{"ipFamilyPolicy":"Some"}}`, "Invalid FieldValueNotSupported spec.ipFamilyPolicy"},
		{`{"metadata":{"labels":{"a":"b c"}},"spec":{"clusterIP":"10.96.7.7","clusterIPs":["10.96.7.7"]}}`,
			"Invalid FieldValueInvalid spec.ipFamilyPolicy"},
		{`{"spec":{"ipFamilyPolicy":null}}`, ""},
		{`{"spec":{"ipFamilyPolicy":"SingleStack"}}`, ""},
	} {
		t.Run(x.patch, func(t *testing.T) {
			if _, err := dual.merge(services, "s", x.patch); reason(err) != x.want {
				t.Errorf("%s: %v, want %s", x.patch, err, x.want)
			}
		})
	}
	s = dual.get(services, "s").(*corev1.Service).Spec
	l, err := dual.list(ipAddresses, metav1.ListOptions{})
	if len(s.ClusterIPs) != 1 || len(s.IPFamilies) != 1 || err != nil || len(l.Entries) != 1 {
		t.Errorf("single: %+v %v", s, err)
	}
}

func TestNodePorts(t *testing.T) {
	w := start(t)
	nodePort := func(name string, p []corev1.ServicePort) (*corev1.Service, error) {
		e, err := w.Create(t.Context(), w.ask(services, ""), service(name, corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: p}))
		if err != nil {
			return nil, err
		}
		return e.Object.(*corev1.Service), nil
	}
	a, err := nodePort("a", ports(80, 31888, 81, 0))
	if err != nil || a.Spec.Ports[0].NodePort != 31888 || a.Spec.Ports[1].NodePort < 30086 || a.Spec.Ports[1].NodePort > 32767 {
		t.Fatalf("%+v, %v", a, err)
	}
	for _, x := range []struct {
		name string
		p    []corev1.ServicePort
		want string
	}{
		{"taken", ports(80, 31888), "Invalid FieldValueInvalid spec.ports[0].nodePort"},
		{"below the range", ports(80, 29999),
			"Invalid FieldValueInvalid spec.ports[0].nodePort"},
		{"twice in one service", ports(80, 31889, 81, 31889), "Invalid FieldValueInvalid spec.ports[1].nodePort"},
		{"free", ports(80, 31889), ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			if _, err := nodePort("b", x.p); reason(err) != x.want {
				t.Errorf("%v: %v", x.p, err)
			}
		})
	}
	udp := ports(53, 0, 53, 0)
	udp[1].Protocol = corev1.ProtocolUDP
	if c, err := nodePort("c", udp); err != nil || c.Spec.Ports[0].NodePort == 0 || c.Spec.Ports[0].NodePort != c.Spec.Ports[1].NodePort {
		t.Errorf("two protocols: %+v, %v", c, err)
	}
	shared := ports(53, 31890, 54, 31890)
	shared[1].Protocol = corev1.ProtocolUDP
	if _, err := nodePort("b", shared); reason(err) != "Invalid FieldValueInvalid spec.ports[1].nodePort" {
		t.Errorf("a node port for two ports of a new service: %v", err)
	}
	patch := func(data string) error {
		_, _, err := w.Patch(t.Context(), w.ask(services, "a"), types.MergePatchType, []byte(data), false)
		return err
	}
	if err := patch(`{"spec":{"ports":[{"port":80,"nodePort":31900}]}}`); err != nil {
		t.Fatal(err)
	}
	if _, err := nodePort("d", ports(80, 31888)); err != nil {
		t.Errorf("a port that was given up: %v", err)
	}
	if err := patch(`{"spec":{"ports":[{"port":80,"nodePort":31888}]}}`); reason(err) != "Invalid FieldValueInvalid spec.ports[0].nodePort" {
		t.Errorf("a change to a taken port: %v", err)
	}
	err = patch(`{"spec":{"ports":[{"name":"a","port":80,"protocol":"TCP","nodePort":31901},
		{"name":"b","port":81,"protocol":"TCP","nodePort":31901}]}}`)
	if err == nil || err.Error() != "duplicate nodePort: {TCP 31901}" {
		t.Errorf("a node port for two ports of a protocol: %v", err)
	}
	err = patch(`{"spec":{"ports":[{"name":"a","port":80,"protocol":"TCP","nodePort":31900},
		{"name":"b","port":80,"protocol":"UDP"}]}}`)
	got := w.get(services, "a").(*corev1.Service).Spec.Ports
	if err != nil || got[1].NodePort == 31900 || got[1].NodePort == 0 {
		t.Errorf("a protocol that comes later has no node port of its own: %v, %v", got, err)
	}
	if _, _, err := w.delete(services, "a", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := nodePort("e", ports(80, 31900)); err != nil {
		t.Errorf("a port of a deleted service: %v", err)
	}
}

func TestFailedServiceLeavesNothing(t *testing.T) {
	w := start(t)
	create(w, services, service("a", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: ports(80, 31001)}))
	before := len(must(w.list(ipAddresses, metav1.ListOptions{})).Entries)
	if _, err := w.Create(t.Context(), w.ask(services, ""),
		service("a", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: ports(80, 31002)})); reason(err) != "AlreadyExists" {
		t.Fatal(err)
	}
	dry := w.ask(services, "")
	dry.DryRun = true
	if _, err := w.Create(t.Context(), dry, service("b", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort,
		Ports: ports(80, 31002)})); err != nil {
		t.Fatal(err)
	}
	if n := len(must(w.list(ipAddresses, metav1.ListOptions{})).Entries); n != before {
		t.Errorf("%d addresses, were %d", n, before)
	}
	create(w, services, service("c", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: ports(80, 31002)}))
}

func TestServiceChangesType(t *testing.T) {
	w := start(t)
	a := create(w, services, service("a", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: ports(80, 31005)}))
	next := resource.Clone(a)
	next.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "x.example", Ports: ports(80, 0)}
	if got := update(w, services, next); got.Spec.ClusterIP != "" || len(got.Spec.IPFamilies) != 0 {
		t.Errorf("external name: %+v", got.Spec)
	}
	if w.get(ipAddresses, a.Spec.ClusterIP) != nil {
		t.Error("the address is not given back")
	}
	create(w, services, service("b", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: ports(80, 31005)}))
	next = resource.Clone(w.get(services, "a").(*corev1.Service))
	next.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Ports: ports(80, 0)}
	if got := update(w, services, next); got.Spec.ClusterIP == "" || w.get(ipAddresses, got.Spec.ClusterIP) == nil {
		t.Errorf("cluster IP: %+v", got.Spec)
	}
}

func TestServiceCIDRs(t *testing.T) {
	cidrs := &resource.Def[*networkingv1.ServiceCIDR]{GVK: networkingv1.SchemeGroupVersion.WithKind("ServiceCIDR"), Plural: "servicecidrs"}
	w := start(t, func(c *testcluster.Config) {
		c.Kinds.Put(cidrs)
		c.Extensions.Network.Services = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/30")} // room for two
	})
	for i := range 2 {
		create(w, services, service(fmt.Sprint("s", i), corev1.ServiceSpec{}))
	}
	if _, err := w.Create(t.Context(), w.ask(services, ""), service("more", corev1.ServiceSpec{})); reason(err)[:13] != "InternalError" {
		t.Errorf("one too many: %v", err)
	}
	create(w, cidrs, &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "more"},
		Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.1.0.0/24"}}})
	if got := create(w, services, service("more", corev1.ServiceSpec{})); !strings.HasPrefix(got.Spec.ClusterIP, "10.1.0.") {
		t.Errorf("got %s", got.Spec.ClusterIP)
	}
	create(w, services, service("fixed", corev1.ServiceSpec{ClusterIP: "10.1.0.9", ClusterIPs: []string{"10.1.0.9"}}))
}

func TestManyServicesAtOnce(t *testing.T) {
	w := start(t, func(c *testcluster.Config) {
		c.Extensions.Network = allocation.Network{Services: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/26")}, PortLow: 30000, PortHigh: 30061}
	})
	const count = 62 // all there are
	var wg sync.WaitGroup
	for i := range count {
		wg.Go(func() {
			s := service(fmt.Sprint("s", i), corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: ports(80, 0)})
			if _, err := w.Create(t.Context(), w.ask(services, ""), s); err != nil {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	wg.Wait()
	ips, nodePorts := map[string]bool{}, map[int32]bool{}
	for _, e := range must(w.list(services, metav1.ListOptions{})).Entries {
		s := e.Object.(*corev1.Service).Spec
		ips[s.ClusterIP], nodePorts[s.Ports[0].NodePort] = true, true
	}
	if len(ips) != count || len(nodePorts) != count {
		t.Errorf("%d addresses, %d ports", len(ips), len(nodePorts))
	}
	_, err := w.Create(t.Context(), w.ask(services, ""), service("more", corev1.ServiceSpec{}))
	if reason(err)[:13] != "InternalError" {
		t.Errorf("one too many: %v", err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
