package webhook

import (
	"context"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/discovery"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/store/memory"
	"github.com/kloop-dev/kloop/view"
)

func bundle(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// A service is reached through its endpoints, of which one may be dead; the certificate must be the service's.
func TestService(t *testing.T) {
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s %s %s", r.Method, r.Host, r.URL, r.Header.Get("Content-Type"))
	}))
	defer hook.Close()
	dialed := 0
	c := &Caller{
		Resolve: func(ns, name string, port int32) ([]string, error) {
			return []string{"10.0.0.1:1", fmt.Sprintf("%s.%s:%d", name, ns, port)}, nil
		},
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dialed++; addr == "10.0.0.1:1" {
				return nil, fmt.Errorf("%s is dead", addr)
			}
			return (&net.Dialer{}).DialContext(ctx, network, hook.Listener.Addr().String())
		}}
	target := Target{Service: &Service{Namespace: "ns", Name: "s", Port: 8443, Path: "/p"}, CABundle: bundle(hook)}
	client, err := c.Client(target)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Post(t.Context(), nil, 100); err == nil || !strings.Contains(err.Error(), "s.ns.svc") {
		t.Errorf("a certificate for other names was believed: %v", err)
	}
	client.http.Transport.(*http.Transport).TLSClientConfig.ServerName = "example.com" // what the test server's certificate is for
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 3 {
		got, err := client.Post(ctx, []byte("{}"), 100)
		if err != nil || !regexp.MustCompile(`^POST s\.ns\.svc:8443 /p\?timeout=([1-9]|[1-5]\d|60)s application/json$`).Match(got) {
			t.Errorf("%q %v", got, err)
		}
	}
	if dialed > 4 {
		t.Errorf("%d connections were made", dialed)
	}
	if again, _ := c.Client(target); again != client {
		t.Error("the client was made anew")
	}
}

// Answers are bounded, and those that are no success say so in upstream's words.
func TestAnswers(t *testing.T) {
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/long":
			fmt.Fprint(w, strings.Repeat("x", 101))
		case "/text":
			http.Error(w, "not now", http.StatusServiceUnavailable)
		}
	}))
	defer hook.Close()
	c := &Caller{}
	for path, want := range map[string]string{"/long": "is longer than 100 bytes",
		"/text": "the server is currently unable to handle the request"} {
		t.Run(path, func(t *testing.T) {
			client, err := c.Client(Target{URL: hook.URL + path, CABundle: bundle(hook)})
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.Post(t.Context(), nil, 100)
			if err == nil || !strings.Contains(err.Error(), want) || apierrors.IsServiceUnavailable(err) != (path == "/text") {
				t.Errorf("%s: %v", path, err)
			}
		})
	}
	for _, bad := range []Target{{}, {URL: "http://x"}, {URL: "https://"}, {URL: "https://x", CABundle: []byte("no certificate")}} {
		if _, err := c.Client(bad); err == nil {
			t.Errorf("%+v has a client", bad)
		}
	}
	for i := range maxClients + 10 {
		if _, err := c.Client(Target{URL: fmt.Sprintf("https://h%d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.clients) > maxClients {
		t.Errorf("%d clients are remembered", len(c.clients))
	}
}

func TestEndpoints(t *testing.T) {
	read := state(t,
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"},
			Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "a", Port: 443}, {Name: "b", Port: 80}}}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "far"},
			Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "far.example"}},
		slice("s-1", "s", "a", 8443, "10.0.0.2", "10.0.0.1"), slice("s-2", "s", "a", 9443, "10.0.0.3"), slice("other", "o", "a", 1, "10.0.0.4"),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "fake", Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "real"}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "sim"},
			Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "mixed"},
			Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}}},
		on("fake", slice("sim-1", "sim", "", 8443, "10.128.0.1")), on("fake", slice("mixed-1", "mixed", "", 8443, "10.128.0.2")),
		on("real", slice("mixed-2", "mixed", "", 8443, "10.0.0.5")))
	for _, tt := range []struct {
		name string
		port int32
		want string
	}{
		{"s", 443, "10.0.0.1:8443 10.0.0.2:8443 10.0.0.3:9443"}, {"s", 80, ""}, {"far", 443, "far.example:443"},
		{"s", 81, `no service port 81 found for service "s"`}, {"none", 443, `service "none" not found`},
		{"mixed", 443, "10.0.0.5:8443"}, {"sim", 443, `the pods of service "sim" are on simulated nodes, and nobody answers there: ` +
			"run what is to be called outside, and name its address in an EndpointSlice of a service without a selector, or its URL"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list, err := Endpoints(read, "ns", tt.name, tt.port)
			got := strings.Join(list, " ")
			if err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("%s:%d: %s, want %s", tt.name, tt.port, got, tt.want)
			}
		})
	}
	down := slice("s", "s", "a", 1, "10.0.0.1")
	down.Endpoints[0].Conditions.Ready = new(bool)
	if hosts, _ := Ready(down, "a"); len(hosts) > 0 {
		t.Errorf("ready: %v", hosts)
	}
}

// on puts the endpoints of a slice on a node.
func on(node string, s *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	for i := range s.Endpoints {
		s.Endpoints[i].NodeName = &node
	}
	return s
}

func slice(name, service, port string, number int32, hosts ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name,
		Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &port, Port: &number}}}
	for _, h := range hosts {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{h}})
	}
	return s
}

// state is a snapshot of a view that holds the objects.
func state(t *testing.T, objs ...resource.Object) resource.Reader {
	t.Helper()
	set, st := resource.NewSet(core.Services, core.Nodes, discovery.EndpointSlices), memory.New()
	for _, obj := range objs {
		k := slices.IndexFunc(set.All(), func(k resource.Kind) bool { return fmt.Sprintf("%T", k.New(k.Info().GVK)) == fmt.Sprintf("%T", obj) })
		kind := set.All()[k]
		value, err := codec.Stored(kind, obj)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := st.Write(t.Context(), store.Write{Key: kind.Info().Key(obj.GetNamespace(), obj.GetName()), Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	v := view.New(set)
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- v.Follow(ctx, st, func() { close(ready) }) }()
	<-ready
	cancel()
	<-done
	return v.Snapshot()
}
