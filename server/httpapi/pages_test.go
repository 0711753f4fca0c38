package httpapi_test

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	memcache "k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/server/fair"
	"github.com/kloop-dev/kloop/server/httpapi"
	"github.com/kloop-dev/kloop/server/httpapi/health"
)

const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

func TestLegacyDiscovery(t *testing.T) {
	w := newWorld(t)
	api := w.must("GET", "/api", "", 200).tree(t)
	if api["kind"] != "APIVersions" || at(api, "versions", 0) != "v1" ||
		at(api, "serverAddressByClientCIDRs", 0, "clientCIDR") != "0.0.0.0/0" {
		t.Errorf("/api %v", api)
	}
	apis := w.must("GET", "/apis", "", 200).tree(t)
	if at(apis, "groups", 0, "name") != "apiregistration.k8s.io" || at(apis, "groups", 1, "name") != "apps" ||
		at(apis, "groups", 3, "name") != "autoscaling" {
		t.Errorf("order of groups %v", apis)
	}
	if at(apis, "groups", 3, "preferredVersion", "version") != "v2" || at(apis, "groups", 3, "versions", 1, "version") != "v1" {
		t.Errorf("versions %v", at(apis, "groups", 3))
	}
	group := w.must("GET", "/apis/autoscaling", "", 200).tree(t)
	if group["kind"] != "APIGroup" || group["apiVersion"] != "v1" || at(group, "preferredVersion", "groupVersion") != "autoscaling/v2" {
		t.Errorf("/apis/autoscaling %v", group)
	}
	core := w.must("GET", "/api/v1", "", 200).tree(t)
	if core["kind"] != "APIResourceList" || core["apiVersion"] != nil || core["groupVersion"] != "v1" {
		t.Errorf("/api/v1 is %v %v %v", core["kind"], core["apiVersion"], core["groupVersion"])
	}
	w.must("DELETE", "/apis/apps/v1", "", 405)
	w.must("DELETE", "/apis/apps", "", 200)
	w.must("HEAD", "/apis/apps/", "", 200)
	w.must("GET", "//api/v1", "", 404)
	for path, details := range map[string]bool{"/api": true, "/api/v1": true, "/apis/apps/v1": true, "/apis": false, "/apis/apps": false} {
		t.Run(path, func(t *testing.T) {
			if st := w.must("GET", path, "", 406, "Accept", "text/html").status(t); (st.Details != nil) != details {
				t.Errorf("%s: %v", path, st)
			}
		})
	}
	w.must("GET", "/api/v2", "", 404)
}

func TestResources(t *testing.T) {
	w := newWorld(t)
	var list metav1.APIResourceList
	if _, err := codec.UnmarshalJSON(w.must("GET", "/api/v1", "", 200).body, &list); err != nil {
		t.Fatal(err)
	}
	want := []metav1.APIResource{
		{Name: "pods", SingularName: "pod", Namespaced: true, Kind: "Pod", ShortNames: []string{"po"}, Categories: []string{"all"},
			Verbs:              metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
			StorageVersionHash: "xPOwRZ+Yhw8="},
		{Name: "pods/eviction", Namespaced: true, Kind: "Eviction", Group: "policy", Version: "v1", Verbs: metav1.Verbs{"create"}},
		{Name: "pods/log", Namespaced: true, Kind: "Pod", Verbs: metav1.Verbs{"get"}},
		{Name: "nodes/proxy", Kind: "NodeProxyOptions", Verbs: metav1.Verbs{"create", "delete", "get", "patch", "update"}},
		{Name: "replicationcontrollers/scale", Namespaced: true, Kind: "Scale", Group: "autoscaling", Version: "v1",
			Verbs: metav1.Verbs{"get", "patch", "update"}},
		{Name: "bindings", SingularName: "binding", Namespaced: true, Kind: "Binding", Verbs: metav1.Verbs{"create"}},
	}
	for _, r := range want {
		i := slices.IndexFunc(list.APIResources, func(have metav1.APIResource) bool { return have.Name == r.Name })
		if i < 0 || !reflect.DeepEqual(list.APIResources[i], r) {
			t.Errorf("%s: %+v", r.Name, list.APIResources[max(i, 0)])
		}
	}
}

func TestAggregatedDiscovery(t *testing.T) {
	w := newWorld(t)
	got := w.must("GET", "/api", "", 200, "Accept", aggregated)
	if typ := got.header.Get("Content-Type"); typ != aggregated {
		t.Errorf("media type %q", typ)
	}
	var list apidiscoveryv2.APIGroupDiscoveryList
	if _, err := codec.UnmarshalJSON(got.body, &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || list.Items[0].Name != "" || list.Items[0].Versions[0].Freshness != apidiscoveryv2.DiscoveryFreshnessCurrent {
		t.Fatalf("document %v", list)
	}
	for _, r := range list.Items[0].Versions[0].Resources {
		if r.Resource == "pods" && (r.Scope != apidiscoveryv2.ScopeNamespace || r.ResponseKind.Kind != "Pod" || len(r.Subresources) < 9) {
			t.Errorf("pods %+v", r)
		}
	}
	if got.header.Get("Vary") != "Accept" || w.must("GET", "/api", "", 200).header.Get("Vary") != "" {
		t.Error("the form with all groups alone varies with what is accepted")
	}
	tag := got.header.Get("ETag")
	w.must("GET", "/api", "", 304, "Accept", aggregated, "If-None-Match", tag)
	w.must("GET", "/api", "", 200, "Accept", aggregated, "If-None-Match", `"other"`)
	w.must("GET", "/api", "", 406, "Accept", strings.Replace(aggregated, "v2", "v2beta1", 1))
	proto := w.must("GET", "/apis", "", 200, "Accept", strings.Replace(aggregated, codec.JSON, codec.Protobuf, 1))
	var all apidiscoveryv2.APIGroupDiscoveryList
	if err := codec.UnmarshalProto(proto.body, &all); err != nil || all.Items[1].Name != "apps" {
		t.Errorf("protobuf %v, error %v", all, err)
	}
	before := w.must("GET", "/apis", "", 200, "Accept", aggregated).header.Get("ETag")
	w.kinds.Remove(deployments.Info().GR())
	if after := w.must("GET", "/apis", "", 200, "Accept", aggregated).header.Get("ETag"); after == before {
		t.Error("the document has not changed with the set")
	}
}

func TestDiscoveryClient(t *testing.T) {
	w := newWorld(t)
	c, err := memcache.NewDiscoveryClientForConfig(&rest.Config{Host: w.serve().URL})
	if err != nil {
		t.Fatal(err)
	}
	groups, lists, err := c.ServerGroupsAndResources()
	if err != nil || len(groups) != 7 || len(lists) != 8 {
		t.Errorf("groups %v, lists %d, error %v", groups, len(lists), err)
	}
	if v, err := c.ServerVersion(); err != nil || v.Major != "1" || v.Minor != "37" || !strings.HasPrefix(v.GitVersion, "v1.37.") {
		t.Errorf("version %v, error %v", v, err)
	}
}

func TestAccess(t *testing.T) {
	w := newWorld(t, func(c *httpapi.Config) {
		c.Authz = everyone{func(a *auth.Attributes) bool { return a.User.Name == "reader" && a.Verb == "get" && a.Name == "mine" }}
	})
	tests := []struct {
		name, method, path string
		headers            []string
		code               int
		message            string
	}{
		{"anonymous", "GET", "/api/v1/pods", []string{"Test-User", "nobody"}, 403,
			`pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" at the cluster scope`},
		{"liar", "GET", "/healthz", []string{"Test-User", "liar"}, 401, "Unauthorized"},
		{"in a namespace", "DELETE", "/apis/apps/v1/namespaces/ns/deployments/x", []string{"Test-User", "joe"}, 403,
			`deployments.apps "x" is forbidden: User "joe" cannot delete resource "deployments" in API group "apps" in the namespace "ns"`},
		{"subresource", "GET", "/api/v1/namespaces/ns/pods/x/log", []string{"Test-User", "joe"}, 403,
			`pods "x" is forbidden: User "joe" cannot get resource "pods/log" in API group "" in the namespace "ns"`},
		{"path", "GET", "/metrics", []string{"Test-User", "joe"}, 403, `forbidden: User "joe" cannot get path "/metrics"`},
		{"unknown resource", "GET", "/api/v1/foos", []string{"Test-User", "joe"}, 403, ""},
		{"allowed by name", "GET", "/api/v1/namespaces/ns/configmaps/mine", []string{"Test-User", "reader"}, 404, ""},
		{"list is more than get", "GET", "/api/v1/namespaces/ns/configmaps?fieldSelector=metadata.name%3Dmine",
			[]string{"Test-User", "reader"}, 403, ""},
		{"impersonation", "GET", "/api/v1/namespaces/ns/configmaps/mine", []string{"Impersonate-User", "reader"}, 404, ""},
		{"no impersonation", "GET", "/api/v1/pods", []string{"Test-User", "reader", "Impersonate-User", "root"}, 403,
			`pods is forbidden: User "reader" cannot impersonate-on:user-info:list resource "pods" in API group "" at the cluster scope`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			st := w.must(tt.method, tt.path, "", tt.code, tt.headers...).status(t)
			if tt.message != "" && st.Message != tt.message {
				t.Errorf("message\n%s, want\n%s", st.Message, tt.message)
			}
		})
	}
}

func TestHealth(t *testing.T) {
	var broken error
	w := newWorld(t, func(c *httpapi.Config) {
		c.Ready = []health.Check{{Name: "store", Run: func(context.Context) error { return broken }}}
	})
	for path, want := range map[string]string{"/healthz": "ok", "/livez": "ok", "/readyz": "ok", "/readyz/store": "ok",
		"/readyz/store?verbose": "ok", "/readyz?verbose": "[+]ping ok\n[+]log ok\n[+]store ok\n[+]shutdown ok\nreadyz check passed\n",
		"/livez?verbose&exclude=x&exclude=b": "[+]ping ok\n[+]log ok\n[+]loopback-serving-certificate ok\n" +
			"warn: some health checks cannot be excluded: no matches for \"b\",\"x\"\nlivez check passed\n"} {
		t.Run(path, func(t *testing.T) {
			if got := w.must("GET", path, "", 200); string(got.body) != want || got.header.Get("Content-Type") != "text/plain; charset=utf-8" {
				t.Errorf("%s: %q %v", path, got.body, got.header)
			}
		})
	}
	broken = errors.New("secret reason")
	if got := w.must("GET", "/readyz", "",
		500); string(got.body) != "[+]ping ok\n[+]log ok\n[-]store failed: reason withheld\n[+]shutdown ok\nreadyz check failed\n" {
		t.Errorf("%q", got.body)
	}
	w.must("GET", "/livez", "", 200)
	w.must("GET", "/readyz?exclude=store", "", 200)
	w.must("GET", "/readyz/nonesuch", "", 404)
}

func TestMetrics(t *testing.T) {
	w := newWorld(t)
	w.must("GET", "/api/v1/nodes", "", 200)
	w.must("POST", "/api/v1/namespaces?dryRun=All", `{"metadata":{"name":"a"}}`, 201)
	w.must("POST", "/api/v1/namespaces?dryRun=Bogus", `{"metadata":{"name":"a"}}`, 422)
	w.must("GET", "/api/v1/namespaces/default/endpoints", "", 200)
	w.must("GET", "/metrics", "", 200)
	got := string(w.must("GET", "/metrics", "", 200).body) // as before
	const (
		nodes = `group="",resource="nodes",scope="cluster",subresource="",verb="LIST",version="v1"} 1`
		made  = `group="",resource="namespaces",scope="resource",subresource="",verb="POST",version="v1"} 1`
	)
	for _, line := range []string{
		`apiserver_request_total{code="200",component="apiserver",dry_run="",` + nodes,
		`apiserver_request_total{code="201",component="apiserver",dry_run="All",` + made,
		`apiserver_request_total{code="422",component="apiserver",dry_run="invalid",` + made,
		`apiserver_request_duration_seconds_count{component="apiserver",dry_run="All",` + made,
		`apiserver_request_sli_duration_seconds_count{component="apiserver",` + nodes,
		`apiserver_response_sizes_count{component="apiserver",` + nodes,
		`apiserver_requested_deprecated_apis{group="",removed_release="",resource="endpoints",subresource="",version="v1"} 1`,
	} {
		if !strings.Contains(got, line+"\n") {
			t.Errorf("no line %s in\n%s", line, got)
		}
	}
	if w.must("GET", "/no/such/path", "", 404); strings.Contains(string(w.must("GET", "/metrics", "", 200).body), "such") {
		t.Error("a path of a stranger became a label")
	}
}

type docs struct{}

func (docs) Index() map[string]string { return map[string]string{"api/v1": "H1", "apis/apps/v1": "H2"} }
func (docs) V3(path string) ([]byte, string, error) {
	return []byte(`{"of":"` + path + `"}`), "H", nil
}
func (docs) V3Proto(string) ([]byte, string, error) { return []byte("p3"), "H", nil }
func (docs) V2JSON() ([][]byte, string, error) {
	return [][]byte{[]byte(`{"swagger":`), []byte(`"2.0"}`)}, "H", nil
}
func (docs) V2Proto() ([][]byte, string, error) { return [][]byte{[]byte("p2")}, "H", nil }
func (docs) V2Hash() string                     { return "H" }

func TestOpenAPI(t *testing.T) {
	w := newWorld(t, func(c *httpapi.Config) { c.OpenAPI = docs{} })
	index := w.must("GET", "/openapi/v3", "", 200).tree(t)
	if at(index, "paths", "apis/apps/v1", "serverRelativeURL") != "/openapi/v3/apis/apps/v1?hash=H2" {
		t.Errorf("index %v", index)
	}
	got := w.must("GET", "/openapi/v3/apis/apps/v1?hash=H2", "", 200)
	if string(got.body) != `{"of":"apis/apps/v1"}` || got.header.Get("Cache-Control") != "public, immutable" {
		t.Errorf("document %s %v", got.body, got.header)
	}
	if got := w.must("GET", "/openapi/v3/apis/apps/v1?hash=old", "", 301); got.header.Get("Location") != "/openapi/v3/apis/apps/v1?hash=H2" {
		t.Errorf("redirected to %q", got.header.Get("Location"))
	}
	for _, path := range []string{"/openapi/v3/apis/none/v1", "/openapi/v3/"} {
		if got := w.must("GET", path, "", 404); len(got.body) > 0 {
			t.Errorf("%s says %q", path, got.body)
		}
	}
	w.must("GET", "/openapi/v2/", "", 404)
	const proto = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
	if got := w.must("GET", "/openapi/v2", "", 200, "Accept", proto); string(got.body) != "p2" {
		t.Errorf("protobuf %q", got.body)
	}
	for _, path := range []string{"/openapi/v2", "/openapi/v3/api/v1"} {
		if got := w.must("GET", path, "", 406, "Accept", "text/plain"); got.header.Get("Vary") != "Accept" {
			t.Errorf("%s refuses a type with %v", path, got.header)
		}
	}
	got = w.must("GET", "/openapi/v2", "", 200)
	w.must("GET", "/openapi/v2", "", 304, "If-None-Match", got.header.Get("ETag"))
}

// unmade are documents that can't be made.
type unmade struct{ docs }

func (unmade) V2JSON() ([][]byte, string, error) { return nil, "", errors.New("made") }
func (unmade) V3(string) ([]byte, string, error) { return nil, "", errors.New("made") }

// A client that has a document gets 304, and the document is not made.
func TestKnownDocumentsAreNotMade(t *testing.T) {
	w := newWorld(t, func(c *httpapi.Config) { c.OpenAPI = unmade{} })
	for path, hash := range map[string]string{"/openapi/v2": "H", "/openapi/v3/api/v1": "H1"} {
		t.Run(path, func(t *testing.T) {
			got := w.must("GET", path, "", 304, "If-None-Match", `"`+hash+`"`)
			if got.header.Get("ETag") != `"`+hash+`"` || got.header.Get("Vary") != "Accept" {
				t.Errorf("%s: %v", path, got.header)
			}
			w.must("GET", path, "", 500, "If-None-Match", `"older"`)
		})
	}
}

func TestTooManyRequests(t *testing.T) {
	inside, release := make(chan bool), make(chan bool)
	w := newWorld(t, func(c *httpapi.Config) {
		c.Fair = fair.New(fair.Config{Seats: 1})
		c.Authz = everyone{func(*auth.Attributes) bool { return true }}
		c.Extra = map[string]http.Handler{"/slow": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inside <- true; <-release })}
	})
	var wait sync.WaitGroup
	wait.Go(func() { w.do("GET", "/slow", "", "Test-User", "joe") })
	<-inside
	got := w.must("GET", "/api/v1/nodes", "", 429, "Test-User", "joe")
	if got.header.Get("Retry-After") != "1" || got.status(t).Reason != metav1.StatusReasonTooManyRequests {
		t.Errorf("answer %v %s", got.header, got.body)
	}
	w.must("GET", "/api/v1/nodes", "", 200) // the administrator gets through
	release <- true
	wait.Wait()
	w.must("GET", "/api/v1/nodes", "", 200, "Test-User", "joe")
}

func TestPanics(t *testing.T) {
	w := newWorld(t, func(c *httpapi.Config) {
		c.Extra = map[string]http.Handler{"/boom/": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("boom") })}
	})
	if st := w.must("GET", "/boom/x", "", 500).status(t); st.Reason != metav1.StatusReasonInternalError {
		t.Errorf("status %+v", st)
	}
	w.must("GET", "/boom", "", 404)
}

func TestRootPaths(t *testing.T) {
	w := newWorld(t)
	for _, page := range []string{"/", "/index.html"} {
		paths, _ := at(w.must("GET", page, "", 200).tree(t), "paths").([]any)
		for _, want := range []string{"/api", "/apis/apps/v1", "/readyz/ping", "/version"} {
			if !slices.Contains(paths, any(want)) {
				t.Errorf("%s: no %s among %v", page, want, paths)
			}
		}
	}
	if st := w.must("POST", "/version", "{}", 405).status(t); st.Reason != metav1.StatusReasonMethodNotAllowed {
		t.Errorf("status %+v", st)
	}
}

type issuer struct{}

func (issuer) Configuration() ([]byte, error) { return []byte(`{"issuer":"i"}`), nil }
func (issuer) Keys() ([]byte, error)          { return []byte(`{"keys":[]}`), nil }

// The keys have a media type of their own, and who takes nothing but JSON is refused.
func TestIssuer(t *testing.T) {
	w := newWorld(t, func(c *httpapi.Config) { c.Issuer = issuer{} })
	for _, x := range []struct {
		method, path, accept string
		code                 int
	}{
		{"GET", "/openid/v1/jwks", "", 200}, {"GET", "/openid/v1/jwks", "application/json", 406}, {"POST", "/openid/v1/jwks", "", 405},
		{"GET", "/openid/v1/jwks", "application/json, */*", 200}, {"GET", "/openid/v1/jwks", "application/jwk-set+json;q=0.5", 200},
		{"GET", "/.well-known/openid-configuration", "application/json", 200}, {"GET", "/.well-known/openid-configuration", "text/html", 406},
	} {
		t.Run(x.method, func(t *testing.T) {
			w.must(x.method, x.path, "", x.code, "Accept", x.accept)
		})
	}
}

// Component SLIs tell how the checks went, by whoever asked for them, and by the scrape.
func TestSLIs(t *testing.T) {
	w := newWorld(t)
	first := string(w.must("GET", "/metrics/slis", "", 200).body)
	if !strings.Contains(first, `kubernetes_healthcheck{name="ping",type="readyz"} 1`) {
		t.Errorf("nobody asked for a check: %s", first)
	}
	w.must("GET", "/livez", "", 200)
	w.must("GET", "/livez/ping", "", 200)
	w.must("GET", "/livez/", "", 404)
	got := string(w.must("GET", "/metrics/slis", "", 200).body)
	for _, line := range []string{`kubernetes_healthcheck{name="ping",type="livez"} 1`,
		`kubernetes_healthchecks_total{name="ping",status="success",type="livez"} 4`} {
		if !strings.Contains(got, line) {
			t.Errorf("%s is missing in %s", line, got)
		}
	}
}
