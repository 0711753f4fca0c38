package server_test

import (
	"context"
	"encoding/base64"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/store"
)

var (
	endpointsKind = &resource.Def[*corev1.Endpoints]{GVK: corev1.SchemeGroupVersion.WithKind("Endpoints"), Plural: "endpoints",
		Storage: "services/endpoints", Namespaced: true}
	endpointSlices = &resource.Def[*discoveryv1.EndpointSlice]{GVK: discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"),
		Plural:     "endpointslices",
		Namespaced: true}
	accounts = &resource.Def[*corev1.ServiceAccount]{GVK: corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
		Plural: "serviceaccounts", Namespaced: true,
		Connect: []resource.SubInfo{{Name: "token", Verbs: []string{"create"}}}}
)

func TestBootstrap(t *testing.T) {
	w := start(t, func(c *testcluster.Config) {
		c.Admission = plugin(func(r *admission.Request) error { t.Errorf("asked admission for %s", r.Name); return nil }, nil)
	})
	settings := configMap("settings", "k", "1")
	settings.Namespace = "kube-system"
	settings.SetGroupVersionKind(configMaps.GVK)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}}
	ns.SetGroupVersionKind(namespaces.GVK)
	unknown := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	unknown.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	list := []resource.Object{settings, ns, unknown}
	if err := w.Bootstrap(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	rev := w.view.Revision()
	if err := w.Bootstrap(t.Context(), list); err != nil || w.view.Revision() != rev {
		t.Errorf("again: %v, wrote %v", err, w.view.Revision() != rev)
	}
	settings.Data["k"] = "2"
	if err := w.Bootstrap(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	got := w.view.Snapshot().Lookup(configMaps, "kube-system", "settings").(*corev1.ConfigMap)
	if got.Data["k"] != "2" || got.ManagedFields[0].Manager != "kube-apiserver" {
		t.Errorf("got %+v", got)
	}
}

func TestPublish(t *testing.T) {
	w := start(t, func(c *testcluster.Config) { c.Kinds.Put(endpointsKind); c.Kinds.Put(endpointSlices) })
	for _, addr := range []string{"192.0.2.1:6443", "192.0.2.2:7443", "192.0.2.2:7443"} {
		at := netip.MustParseAddrPort(addr)
		if err := w.alloc.PublishEndpoints(t.Context(), []netip.AddrPort{at}); err != nil {
			t.Fatal(err)
		}
		snap := w.view.Snapshot()
		svc := snap.Lookup(services, "default", "kubernetes").(*corev1.Service)
		if svc.Spec.ClusterIP != "10.96.0.1" || svc.Spec.Ports[0].TargetPort.IntValue() != int(at.Port()) {
			t.Errorf("service %+v", svc.Spec)
		}
		ep := snap.Lookup(endpointsKind, "default", "kubernetes").(*corev1.Endpoints)
		sl := snap.Lookup(endpointSlices, "default", "kubernetes").(*discoveryv1.EndpointSlice)
		if ep.Subsets[0].Addresses[0].IP != at.Addr().String() || sl.Endpoints[0].Addresses[0] != at.Addr().String() ||
			*sl.Ports[0].Port != int32(at.Port()) || sl.Labels[discoveryv1.LabelServiceName] != "kubernetes" {
			t.Errorf("%s: %+v, %+v", addr, ep.Subsets, sl)
		}
	}
}

func TestRepair(t *testing.T) {
	w := start(t)
	a := create(w, services, service("a", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: ports(80, 31000)}))
	orphan := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: "10.96.9.9",
		Labels: map[string]string{networkingv1.LabelManagedBy: "ipallocator.k8s.io"}},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "ns", Name: "gone"}}}
	create(w, ipAddresses, orphan)
	if _, _, err := w.delete(ipAddresses, a.Spec.ClusterIP, nil); err != nil {
		t.Fatal(err)
	}
	kv, _, err := w.store.Get(t.Context(), "/registry/ranges/servicenodeports")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.Write(t.Context(), store.Write{Key: kv.Key, Expect: kv.ModRev}); err != nil {
		t.Fatal(err)
	}
	if err := w.alloc.Repair(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.get(ipAddresses, "10.96.9.9") != nil || w.get(ipAddresses, a.Spec.ClusterIP) == nil {
		t.Error("addresses are not repaired")
	}
	b := service("b", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: ports(80, 31000)})
	if _, err := w.Create(t.Context(), w.ask(services, ""), b); reason(err) != "Invalid FieldValueInvalid spec.ports[0].nodePort" {
		t.Errorf("ports are not repaired: %v", err)
	}
}

// A server that starts beside others takes nothing away that they may be about to use; what nobody comes to use goes later.
func TestMend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, func(c *testcluster.Config) { c.Sole = false })
		create(w, services, service("a", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: ports(80, 31000)}))
		var address string
		leaky := func() (port, held bool) { // does what a service half made leaves behind stand in the way of another?
			dry := w.ask(services, "")
			dry.DryRun = true
			_, err := w.Create(t.Context(), dry, service("probe", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: ports(80, 31001)}))
			return err != nil, w.get(ipAddresses, address) != nil
		}
		// A service that was being made by a server that died: its port and its address are taken.
		b := create(w, services, service("b", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: ports(80, 31001)}))
		address = b.Spec.ClusterIP
		rev, err := strconv.ParseInt(b.ResourceVersion, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.store.Write(t.Context(), store.Write{Key: services.Info().Key("ns", "b"), Expect: rev}); err != nil {
			t.Fatal(err)
		}
		if err := w.alloc.Repair(t.Context()); err != nil {
			t.Fatal(err)
		}
		if p, a := leaky(); !p || !a {
			t.Errorf("taken away from a service that may be on the way: port %v, address %v", !p, !a)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go w.alloc.RepairLoop(ctx)
		time.Sleep(10 * time.Minute) // simulated
		if p, a := leaky(); p || a {
			t.Errorf("still taken after ten minutes: port %v, address %v", p, a)
		}
		if w.get(ipAddresses, w.get(services, "a").(*corev1.Service).Spec.ClusterIP) == nil {
			t.Error("took the address of a service that is there")
		}
		cancel()
	})
}

type issuer struct{}

func (issuer) Complete(tr *authenticationv1.TokenRequest) error {
	if *tr.Spec.ExpirationSeconds < 600 {
		return apierrors.NewBadRequest("too short")
	}
	return nil
}

func (issuer) Request(_ resource.Reader, sa *corev1.ServiceAccount,
	tr *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	out := tr.DeepCopy()
	out.Status.Token = string(sa.UID)
	return out, nil
}

func TestToken(t *testing.T) {
	w := start(t, func(c *testcluster.Config) { c.Kinds.Put(accounts); c.Extensions.Access.Tokens = issuer{} })
	sa := create(w, accounts, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}})
	out, err := w.Call(t.Context(), sub(w.ask(accounts, "robot"), "token"), "create", &authenticationv1.TokenRequest{})
	if err != nil || out.(*authenticationv1.TokenRequest).Status.Token != string(sa.UID) || out.GetName() != "robot" {
		t.Errorf("%+v, %v", out, err)
	}
	if _, err := w.Call(t.Context(), sub(w.ask(accounts, "none"), "token"), "create",
		&authenticationv1.TokenRequest{}); reason(err) != "NotFound" {
		t.Errorf("no account: %v", err)
	}
	if _, err := w.Call(t.Context(), sub(w.ask(accounts, "robot"), "token"), "get", nil); reason(err) != "MethodNotAllowed" {
		t.Errorf("get: %v", err)
	}
}

type jwtIssuer struct{ issuer }

func (jwtIssuer) Request(_ resource.Reader, _ *corev1.ServiceAccount,
	tr *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	out := tr.DeepCopy()
	out.Status.Token = "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"jti":"seven"}`)) + ".x"
	return out, nil
}

func TestTokenIsAudited(t *testing.T) {
	w := start(t, func(c *testcluster.Config) { c.Kinds.Put(accounts); c.Extensions.Access.Tokens = jwtIssuer{} })
	create(w, accounts, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}})
	noted := map[string]string{}
	ask := sub(w.ask(accounts, "robot"), "token")
	ask.Annotate = func(key, value string) { noted[key] = value }
	if _, err := w.Call(t.Context(), ask, "create", &authenticationv1.TokenRequest{}); err != nil {
		t.Fatal(err)
	}
	if noted["authentication.kubernetes.io/issued-credential-id"] != "JTI=seven" {
		t.Errorf("%v", noted)
	}
}

func TestServersComeAndGo(t *testing.T) { synctest.Test(t, serversComeAndGo) }

func serversComeAndGo(t *testing.T) {
	more := func(c *testcluster.Config) { c.Sole = false; c.Kinds.Put(endpointsKind); c.Kinds.Put(endpointSlices) }
	a := start(t, more)
	b := start(t, more, func(c *testcluster.Config) { c.Store = a.store })
	stay := func(w *world, at string) (leave func()) {
		ctx, cancel := context.WithCancel(t.Context())
		ready, done := make(chan struct{}), make(chan error, 1)
		go func() { done <- w.alloc.Heartbeat(ctx, netip.MustParseAddrPort(at), func() { close(ready) }) }()
		<-ready
		return func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	published := func(want string) {
		t.Helper()
		synctest.Wait()
		e, err := a.Get(t.Context(), &server.Request{Kind: endpointsKind, GVK: endpointsKind.GVK, Namespace: "default", Name: "kubernetes"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, x := range e.Object.(*corev1.Endpoints).Subsets[0].Addresses {
			got = append(got, x.IP)
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("published %q, want %q", s, want)
		}
	}
	leaveA := stay(a, "192.0.2.1:6443")
	published("192.0.2.1")
	leaveB := stay(b, "192.0.2.2:6443")
	published("192.0.2.1 192.0.2.2")
	if _, err := a.store.Write(t.Context(), store.Write{Key: "/registry/masterleases/192.0.2.3", Value: []byte("x"),
		TTL: 15 * time.Second}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(11 * time.Second) // simulated
	published("192.0.2.1 192.0.2.2 192.0.2.3")
	time.Sleep(20 * time.Second) // simulated
	published("192.0.2.1 192.0.2.2")
	leaveB()
	published("192.0.2.1")
	leaveA()
}

// A sole server gives back what it could not when a service went: nobody restarts it for an address.
func TestMendAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &refusing{}
		w := start(t, func(c *testcluster.Config) { f.Store, c.Store, c.Sole = c.Store, f, true })
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go w.alloc.RepairLoop(ctx)
		a := create(w, services, service("a", corev1.ServiceSpec{Ports: ports(80, 0)}))
		f.prefix.Store("/registry/ipaddresses/")
		if _, _, err := w.Delete(t.Context(), w.ask(services, "a"), nil); err != nil {
			t.Fatal(err)
		}
		f.prefix.Store("")
		if w.get(ipAddresses, a.Spec.ClusterIP) == nil {
			t.Fatal("the address was given back at once")
		}
		time.Sleep(10 * time.Minute) // simulated
		if w.get(ipAddresses, a.Spec.ClusterIP) != nil {
			t.Error("the address is still taken after ten minutes")
		}
	})
}

// A sole server also looks after what it was not told the end of: a deletion that was done, an address that was taken.
func TestRepairAfterDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &silent{}
		w := start(t, func(c *testcluster.Config) { f.Store, c.Store, c.Sole = c.Store, f, true })
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go w.alloc.RepairLoop(ctx)
		a := create(w, services, service("a", corev1.ServiceSpec{Ports: ports(80, 0)}))
		f.on.Store(true)
		if _, _, err := w.Delete(t.Context(), w.ask(services, "a"), nil); err == nil {
			t.Fatal("the deletion was answered")
		}
		time.Sleep(10 * time.Minute) // simulated
		if w.get(ipAddresses, a.Spec.ClusterIP) != nil {
			t.Error("the address of a service that went without an answer is still taken after ten minutes")
		}
		f.on.Store(true)
		if _, err := w.Create(t.Context(), w.ask(services, ""), service("b", corev1.ServiceSpec{Ports: ports(80, 0)})); err == nil {
			t.Fatal("the address was allocated")
		}
		time.Sleep(10 * time.Minute) // simulated
		for obj := range w.view.Snapshot().Each(ipAddresses, "") {
			t.Errorf("the address %s of no service is still taken after ten minutes", obj.GetName())
		}
	})
}

// refusing is a store that does not answer writes of some keys.
type refusing struct {
	store.Store
	prefix atomic.Value // string
}

func (f *refusing) Write(ctx context.Context, w store.Write) (int64, error) {
	if p, _ := f.prefix.Load().(string); p != "" && strings.HasPrefix(w.Key, p) {
		return 0, errFlaky
	}
	return f.Store.Write(ctx, w)
}

// The server's own range is said to be ready, once.
func TestBootstrapRange(t *testing.T) {
	w := start(t, func(c *testcluster.Config) {
		c.Kinds.Put(&resource.Def[*networkingv1.ServiceCIDR]{GVK: networkingv1.SchemeGroupVersion.WithKind("ServiceCIDR"),
			Plural: "servicecidrs", Status: true})
	})
	own := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"},
		Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/16"}}}
	own.SetGroupVersionKind(networkingv1.SchemeGroupVersion.WithKind("ServiceCIDR"))
	boot := func() error {
		if err := w.Bootstrap(t.Context(), []resource.Object{own}); err != nil {
			return err
		}
		return w.alloc.TellRanges(t.Context(), []resource.Object{own})
	}
	if err := boot(); err != nil {
		t.Fatal(err)
	}
	rev := w.view.Revision()
	k, _ := w.Kinds.Kind(own.GroupVersionKind())
	got := w.view.Snapshot().Lookup(k, "", "kubernetes").(*networkingv1.ServiceCIDR)
	if c := got.Status.Conditions; len(c) != 1 || c[0].Type != "Ready" || c[0].Status != "True" || c[0].Reason != "" ||
		c[0].LastTransitionTime.IsZero() {
		t.Errorf("conditions %+v", c)
	}
	if m := got.ManagedFields; len(m) != 2 || m[0].Manager != "kubernetes-service-cidr-controller" || m[0].Operation != "Apply" ||
		m[0].Subresource != "status" {
		t.Errorf("managed fields %+v", m)
	}
	if err := boot(); err != nil || w.view.Revision() != rev {
		t.Errorf("again: %v, wrote %v", err, w.view.Revision() != rev)
	}
}
