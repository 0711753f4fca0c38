package dns

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/store/memory"
	"github.com/kloop-dev/kloop/view"
)

// A world is a store with a view of it: what a server reads.
type world struct {
	t    testing.TB
	st   store.Store
	view *view.View
	set  *resource.Set
	rev  map[string]int64
	client.Client
}

func newWorld(t testing.TB, objs ...resource.Object) *world {
	t.Helper()
	w := &world{t: t, st: memory.New(), set: resource.NewSet(kinds.Services, kinds.EndpointSlices, kinds.Namespaces, kinds.Nodes),
		rev: map[string]int64{}}
	for _, obj := range objs {
		w.put(obj)
	}
	w.view = view.New(w.set)
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- w.view.Follow(ctx, w.st, func() { close(ready) }) }()
	<-ready
	t.Cleanup(func() { cancel(); <-done })
	return w
}

// Read implements client.Client.
func (w *world) Read() resource.Reader { return w.view.Snapshot() }

// Feed implements client.Client.
func (w *world) Feed(list ...resource.Kind) client.Feed { return client.NewFeed(w.view, list...) }

// Patch implements client.Client.
func (w *world) Patch(context.Context, resource.Kind, string, string, client.Patch) (resource.Object, error) {
	return nil, context.Canceled
}

func (w *world) put(obj resource.Object) {
	w.t.Helper()
	for _, k := range w.set.All() {
		if reflect.TypeOf(k.New(k.Info().GVK)) != reflect.TypeOf(obj) {
			continue
		}
		value, err := codec.Stored(k, obj)
		if err != nil {
			w.t.Fatal(err)
		}
		key := k.Info().Key(obj.GetNamespace(), obj.GetName())
		res, err := w.st.Write(w.t.Context(), store.Write{Key: key, Value: value, Expect: w.rev[key]})
		if err != nil {
			w.t.Fatal(err)
		}
		w.rev[key] = res
		return
	}
	w.t.Fatalf("no kind for %T", obj)
}

func meta(ns, name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: ns, Name: name} }

func space(name string) *corev1.Namespace { return &corev1.Namespace{ObjectMeta: meta("", name)} }

func svc(name string, ports []corev1.ServicePort, ips ...string) *corev1.Service {
	return &corev1.Service{ObjectMeta: meta("shop", name), Spec: corev1.ServiceSpec{ClusterIP: ips[0], ClusterIPs: ips, Ports: ports}}
}

// slice makes a slice of endpoints, each ADDRESS or HOSTNAME=ADDRESS, of TCP port 8080 named http.
func slice(service, name string, typ discoveryv1.AddressType, ends ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{ObjectMeta: meta("shop", name), AddressType: typ, Endpoints: ends,
		Ports: []discoveryv1.EndpointPort{{Name: ptr("http"), Port: ptr(int32(8080)), Protocol: ptr(corev1.ProtocolTCP)}}}
	s.Labels = map[string]string{discoveryv1.LabelServiceName: service}
	return s
}

func ptr[T any](v T) *T { return &v }

func ready(host, addr string) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: []string{addr}}
	if host != "" {
		e.Hostname = &host
	}
	return e
}

func unready(host, addr string) discoveryv1.Endpoint {
	e := ready(host, addr)
	e.Conditions.Ready = ptr(false)
	return e
}

// shop is a namespace with one Service of every sort.
func shop() []resource.Object {
	ports := []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}, {Name: "DNS", Port: 53,
		Protocol: corev1.ProtocolUDP}}
	ext := svc("outside", nil, "")
	ext.Spec.Type, ext.Spec.ExternalName = corev1.ServiceTypeExternalName, "Www.Example.com."
	alias := svc("alias", nil, "")
	alias.Spec.Type, alias.Spec.ExternalName = corev1.ServiceTypeExternalName, "web.shop.svc.cluster.local"
	loop := svc("loop", nil, "")
	loop.Spec.Type, loop.Spec.ExternalName = corev1.ServiceTypeExternalName, "loop.shop.svc.cluster.local"
	return []resource.Object{space("shop"), space("empty"), ext, alias, loop,
		svc("web", ports, "10.96.1.1"), svc("one", []corev1.ServicePort{{Port: 80}}, "10.96.1.2"), svc("dual", ports, "10.96.1.3",
			"fd00:96::3"),
		slice("web", "web-1", discoveryv1.AddressTypeIPv4, ready("", "10.88.0.1"), unready("", "10.88.0.2")),
		svc("db", nil, "None"),
		slice("db", "db-1", discoveryv1.AddressTypeIPv4, ready("db-0", "10.88.0.10"), ready("DB-1", "10.88.0.11"), unready("db-2",
			"10.88.0.12")),
		slice("db", "db-2", discoveryv1.AddressTypeIPv6, ready("db-0", "fd00:88::a")),
		svc("plain", nil, "None"), slice("plain", "plain-1", discoveryv1.AddressTypeIPv4, ready("", "10.88.0.20")),
		svc("down", nil, "None"), slice("down", "down-1", discoveryv1.AddressTypeIPv4, unready("x", "10.88.0.30")),
		svc("fqdn", nil, "None"), slice("fqdn", "fqdn-1", discoveryv1.AddressTypeFQDN, ready("", "a.example")),
	}
}

// synced is a server that knows the objects.
func synced(t testing.TB, objs ...resource.Object) (*server, *world) {
	t.Helper()
	w := newWorld(t, objs...)
	own := netip.MustParseAddr("127.0.0.1")
	cfg := Config{Client: w, Addresses: []netip.Addr{own}, Cluster: []netip.Addr{netip.MustParseAddr("10.96.0.10")},
		ResolvConf: "/nowhere",
		Log:        slog.New(slog.DiscardHandler)}
	cfg.fill()
	s, err := newServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b, err := w.Feed(kinds.Services, kinds.EndpointSlices, kinds.Namespaces, kinds.Nodes).Next(t.Context())
	if err != nil || !b.Reset {
		t.Fatal(fmt.Sprint("first batch: ", b, err))
	}
	s.zone.take(b)
	return s, w
}
