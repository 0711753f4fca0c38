package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/cli/ask"
)

// shop is a namespace where web may reach db on 5432, nobody else may, and cache waits for an address.
var shop = map[string]string{
	"/api/v1/namespaces/shop":          "{metadata: {name: shop, labels: {kubernetes.io/metadata.name: shop}}}",
	"/api/v1/namespaces/ops":           "{metadata: {name: ops, labels: {team: ops}}}",
	"/api/v1/nodes/n1":                 "{metadata: {name: n1}, status: {addresses: [{type: InternalIP, address: 10.9.0.1}]}}",
	"/api/v1/namespaces/shop/pods/web": pod("shop", "web", "10.1.0.1"), "/api/v1/namespaces/shop/pods/db": pod("shop", "db", "10.1.0.2"),
	"/api/v1/namespaces/ops/pods/prom":                          pod("ops", "prom", "10.1.0.3"),
	"/api/v1/namespaces/shop/pods/cache":                        "{metadata: {namespace: shop, name: cache}, status: {phase: Pending}}",
	"/apis/networking.k8s.io/v1/namespaces/ops/networkpolicies": "{items: []}",
	"/apis/networking.k8s.io/v1/namespaces/shop/networkpolicies": `{items: [{metadata: {namespace: shop, name: db},
		spec: {podSelector: {matchLabels: {app: db}}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 5432}]}]}}]}`,
	"/api/v1/namespaces/shop/services/db":   "{metadata: {namespace: shop, name: db}, spec: {ports: [{name: sql, port: 80, protocol: TCP}]}}",
	"/api/v1/namespaces/shop/services/none": "{metadata: {namespace: shop, name: none}, spec: {ports: [{port: 80, protocol: TCP}]}}",
	"/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices kubernetes.io/service-name=db": `{items: [{ports: [{name: sql, port: 5432}],
		endpoints: [{addresses: [10.1.0.2], targetRef: {kind: Pod, namespace: shop, name: db}}]}]}`,
	"/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices kubernetes.io/service-name=none": "{items: []}",
	"/api/v1/namespaces/shop/services/bare": "{metadata: {namespace: shop, name: bare}, " +
		"spec: {ports: [{name: sql, port: 80, protocol: TCP}]}}",
	"/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices kubernetes.io/service-name=bare": `{items: [{ports: [{name: sql, port: 22}],
		endpoints: [{addresses: [10.1.0.2]}, {addresses: [192.0.2.1]}]}]}`,
	"/api/v1/services spec.clusterIP=192.0.2.1": "{items: []}",
	"/api/v1/pods status.podIP=192.0.2.1":       "{items: []}",
	"/api/v1/services spec.clusterIP=10.1.0.2":  "{items: []}",
	"/api/v1/pods status.podIP=10.1.0.2":        "{items: [" + pod("shop", "db", "10.1.0.2") + "]}",
	"/api/v1/services spec.clusterIP=10.96.0.9": `{items: [{metadata: {namespace: shop, name: db},
		spec: {clusterIP: 10.96.0.9, clusterIPs: [10.96.0.9]}}]}`,
	"/api/v1/namespaces/shop/pods/done": strings.Replace(pod("shop", "done", "10.1.0.2"), "Running", "Succeeded", 1),
}

func pod(ns, name, ip string) string {
	return "{metadata: {namespace: " + ns + ", name: " + name + ", labels: {app: " + name + "}}, spec: {nodeName: n1}, " +
		"status: {phase: Running, podIP: " + ip + ", podIPs: [{ip: " + ip + "}]}}"
}

// fakeServer answers as an API server that holds the objects, to a caller who may not read the paths in hidden.
func fakeServer(t *testing.T, objects map[string]string, hidden ...string) *ask.Asker {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		text, there := objects[strings.TrimSpace(r.URL.Path+" "+r.URL.Query().Get("labelSelector")+r.URL.Query().Get("fieldSelector"))]
		refuse := func(err *apierrors.StatusError) {
			w.WriteHeader(int(err.ErrStatus.Code))
			_ = json.NewEncoder(w).Encode(err.ErrStatus)
		}
		for _, h := range hidden {
			if r.URL.Path == h {
				refuse(apierrors.NewForbidden(schema.GroupResource{Resource: path.Base(path.Dir(h))}, path.Base(h), errors.New("ann may not")))
				return
			}
		}
		if !there {
			refuse(apierrors.NewNotFound(schema.GroupResource{}, r.URL.Path))
			return
		}
		data, err := yaml.YAMLToJSON([]byte(strings.ReplaceAll(text, "\t", " ")))
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(data)
	}))
	t.Cleanup(srv.Close)
	a, err := ask.New(&rest.Config{Host: srv.URL}, "shop")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestReach: whether a pod may connect, which policy says so, and what could not be seen.
func TestReach(t *testing.T) {
	for _, c := range []struct {
		name, from, to string
		wants          []string // in the answer or the error
		hidden         []string
	}{
		{"a policy allows it", "web", "pod/db:5432",
			[]string{"pod/web may reach pod/db (10.1.0.2) on TCP 5432", "NetworkPolicy shop/db allows it (spec.ingress[0])"}, nil},
		{"another port", "web", "pod/db:22", []string{"pod/web may not reach", "no ingress rule of NetworkPolicy shop/db allows"}, nil},
		{"no policy", "db", "pod/web:80", []string{"pod/db may reach pod/web", "no policy isolates"}, nil},
		{"another namespace", "db", "ops/pod/prom:9090/udp", []string{"pod/db may reach pod/prom (10.1.0.3) on UDP 9090"}, nil},
		{"an address", "web", "192.0.2.1:443", []string{"pod/web may reach 192.0.2.1 on TCP 443"}, nil},
		{"a service leads to its endpoints' ports", "web", "service/db:80", []string{"may reach pod/db (10.1.0.2) on TCP 5432"}, nil},
		{"a service without endpoints", "web", "svc/none:80", []string{"no ready endpoint", "kloop why service/none"}, nil},
		{"endpoints that somebody wrote", "web", "svc/bare:80", []string{"may not reach pod/db (10.1.0.2) on TCP 22",
			"NetworkPolicy shop/db", "may reach 192.0.2.1 on TCP 22"}, nil},
		{"whose they are can't be seen", "web", "svc/bare:80", []string{"not seen", "which pod has the address 10.1.0.2"},
			[]string{"/api/v1/pods"}},
		{"a port that a service has not", "web", "svc/db:81", []string{"has no port 81"}, nil},
		{"a pod without an address", "web", "pod/cache:80", []string{"has no address (it is Pending)", "kloop why pod/cache"}, nil},
		{"no port", "web", "pod/db", []string{"is no end of a connection", "pod/NAME:PORT"}, nil},
		{"no protocol", "web", "pod/db:80/icmp", []string{"is no end of a connection"}, nil},
		{"a pod's address", "web", "10.1.0.2:22", []string{"may not reach pod/db (10.1.0.2) on TCP 22", "NetworkPolicy shop/db"}, nil},
		{"a service's address", "web", "10.96.0.9:80", []string{"may reach pod/db (10.1.0.2) on TCP 5432"}, nil},
		{"whose address it is can't be seen", "web", "10.1.0.2:22",
			[]string{"may reach 10.1.0.2", "not seen", "which pod has the address 10.1.0.2"}, []string{"/api/v1/pods"}},
		{"a pod that has ended", "done", "pod/db:22", []string{"has ended (Succeeded)"}, nil},
		{"few rights", "web", "pod/db:5432", []string{"pod/web may reach", "not seen", "labels of namespace shop", "you may not read it"},
			[]string{"/api/v1/namespaces/shop"}},
		{"no rights", "web", "pod/db:5432", []string{`pods "db" is forbidden: ann may not`}, []string{"/api/v1/namespaces/shop/pods/db"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			if err := reach(t.Context(), fakeServer(t, shop, c.hidden...), &out, "pod", c.from, c.to); err != nil {
				out.WriteString(err.Error())
			}
			for _, w := range c.wants {
				if !strings.Contains(out.String(), w) {
					t.Errorf("lacks %q:\n%s", w, &out)
				}
			}
		})
	}
}
