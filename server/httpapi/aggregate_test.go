package httpapi_test

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/server/httpapi"
	"github.com/kloop-dev/kloop/server/httpapi/aggregator"
)

// Another server's group: discovery, requests with the caller's name, and its absence.
func TestAggregation(t *testing.T) {
	other := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/apis/x.example/v1" {
			fmt.Fprint(w,
				`{"kind":"APIResourceList","groupVersion":"x.example/v1","resources":[{"name":"things","singularName":"thing","namespaced":true,`+
					`"kind":"Thing","verbs":["get"]}]}`)
			return
		}
		fmt.Fprintf(w, "%s %s for %s %v %q", r.Method, r.URL, r.Header.Get("X-Remote-User"), r.Header["X-Remote-Group"],
			r.Header.Get("Authorization"))
	}))
	defer other.Close()
	reach := other.Listener.Addr().String()
	dialed := ""
	agg := &aggregator.Aggregator{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialed = addr
		return (&net.Dialer{}).DialContext(ctx, network, reach)
	}}
	w := newWorld(t, func(c *httpapi.Config) {
		c.Groups, c.Delegate = agg, agg
		c.Authz = everyone{func(a *auth.Attributes) bool { return a.User.Name == "joe" && a.Resource == "things" }}
	})
	w.must("GET", "/apis/x.example/v1/things", "", 404)
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other.Certificate().Raw}))
	w.must("POST", "/apis/apiregistration.k8s.io/v1/apiservices",
		`{"metadata":{"name":"v1.x.example"},"spec":{"group":"x.example","version":"v1",
		"groupPriorityMinimum":2000,"versionPriority":15,"service":{"namespace":"ns","name":"other"},"insecureSkipTLSVerify":true}}`, 201)
	w.must("GET", "/apis/x.example/v1/things", "", 503)
	w.must("POST", "/api/v1/namespaces/ns/services", `{"metadata":{"name":"other"},"spec":{"clusterIP":"None","ports":[{"port":443}]}}`, 201)
	w.must("POST", "/apis/discovery.k8s.io/v1/namespaces/ns/endpointslices",
		`{"metadata":{"name":"other-1","labels":{"kubernetes.io/service-name":"other"}},
		"addressType":"IPv4","ports":[{"port":8443,"name":""}],"endpoints":[{"addresses":["10.9.8.7"]}]}`, 201)
	got := w.must("GET", "/apis/x.example/v1/namespaces/a/things/b?x=1", "", 200, "Test-User", "joe", "X-Remote-User", "root",
		"Authorization", "Bearer x")
	if string(got.body) != `GET /apis/x.example/v1/namespaces/a/things/b?x=1 for joe [system:authenticated] ""` || dialed != "10.9.8.7:8443" {
		t.Errorf("answer %s by %s", got.body, dialed)
	}
	w.must("GET", "/apis/x.example/v1/things", "", 403, "Test-User", "eve")
	if got := w.must("GET", "/apis/x.example/v1", "", 200).tree(t); at(got, "resources", 0, "name") != "things" {
		t.Errorf("resources %v", got)
	}
	all := string(w.must("GET", "/apis", "", 200, "Accept", aggregated).body)
	if !strings.Contains(all, `"responseKind":{"group":"x.example","version":"v1","kind":"Thing"}`) {
		t.Errorf("aggregated discovery lacks the group: %s", all)
	}
	w.must("PATCH", "/apis/apiregistration.k8s.io/v1/apiservices/v1.x.example",
		`{"spec":{"insecureSkipTLSVerify":false,"caBundle":"`+ca+`"}}`, 200,
		"Content-Type", "application/merge-patch+json")
	if text := string(w.must("GET", "/apis/x.example/v1/things", "", 503).body); !strings.HasPrefix(text,
		"error trying to reach service: ") || !strings.Contains(text, "certificate") {
		t.Errorf("a certificate for other names was believed: %s", text)
	}
	w.must("PATCH", "/apis/apiregistration.k8s.io/v1/apiservices/v1.x.example/status",
		`{"status":{"conditions":[{"type":"Available","status":"False"}]}}`, 200,
		"Content-Type", "application/merge-patch+json")
	if got := w.must("GET", "/apis/x.example/v1/things", "", 503); string(got.body) != "service unavailable\n" ||
		got.header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("%q %v", got.body, got.header)
	}
	w.must("DELETE", "/apis/apiregistration.k8s.io/v1/apiservices/v1.x.example", "", 200)
	w.must("GET", "/apis/x.example/v1/things", "", 404)
}
