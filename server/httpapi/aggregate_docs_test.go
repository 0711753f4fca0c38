package httpapi_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kloop-dev/kloop/openapi"
	"github.com/kloop-dev/kloop/server/httpapi"
	"github.com/kloop-dev/kloop/server/httpapi/aggregator"
)

// another plays the server of x.example/v1.
type another struct {
	things  atomic.Int64
	fetched atomic.Int64
	old     atomic.Bool // knows OpenAPI v2 only
}

func (a *another) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/apis/x.example/v1":
		fmt.Fprint(w, `{"kind":"APIResourceList","groupVersion":"x.example/v1","resources":[
			{"name":"things","singularName":"thing","namespaced":true,"kind":"Thing","verbs":["get","list","deletecollection"]}]}`)
	case strings.HasPrefix(r.URL.Path, "/openapi/v3") && a.old.Load():
		http.NotFound(w, r)
	case r.URL.Path == "/openapi/v3":
		fmt.Fprint(w,
			`{"paths":{"apis/x.example/v1":{"serverRelativeURL":"/openapi/v3/apis/x.example/v1?hash=AB"},`+
				`"apis/other/v1":{"serverRelativeURL":"/x"}}}`)
	case r.URL.Path == "/openapi/v3/apis/x.example/v1" && r.URL.Query().Get("hash") == "AB":
		a.fetched.Add(1)
		fmt.Fprint(w, `{"openapi":"3.0.0","info":{"title":"x","version":"1"},"paths":{"/apis/x.example/v1/":{}}}`)
	case r.URL.Path == "/openapi/v2":
		w.Header().Set("ETag", `"one"`)
		fmt.Fprint(w, `{"swagger":"2.0","info":{"title":"x","version":"1"},"paths":{
			"/apis/x.example/v1/bare":{"get":{}},
			"/apis/x.example/v1/things":{"get":{"produces":["application/json"],
			  "responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/example.Thing"}}}}},
			"/apis/elsewhere/v1/":{"get":{"responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/example.Unused"}}}}}},
			"definitions":{"example.Thing":{"type":"object","properties":{"pod":{"$ref":"#/definitions/io.k8s.api.core.v1.Pod"}}},
			"io.k8s.api.core.v1.Pod":{"type":"object","description":"another pod"},"example.Unused":{"type":"object"}}}`)
	case r.Method == http.MethodDelete:
		a.things.Store(0)
		fmt.Fprint(w, `{"kind":"Status","status":"Success"}`)
	case strings.HasSuffix(r.URL.Path, "/namespaces/ns/things"):
		fmt.Fprintf(w, `{"kind":"ThingList","items":[%s]}`, strings.TrimSuffix(strings.Repeat("{},", int(a.things.Load())), ","))
	case r.Header.Get("Upgrade") == "echo":
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_ = rw.Flush()
		line, _ := rw.ReadString('\n')
		fmt.Fprintf(rw, "%s says %s", r.Header.Get("X-Remote-User"), line)
		_ = rw.Flush()
	default:
		http.NotFound(w, r)
	}
}

// aggregating is a world with x.example/v1 elsewhere, and dead.example/v1 nowhere.
func aggregating(t *testing.T) (*world, *another, *aggregator.Aggregator) {
	t.Helper()
	a := &another{}
	other := httptest.NewTLSServer(a)
	t.Cleanup(other.Close)
	agg := &aggregator.Aggregator{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr != "10.9.8.7:8443" {
			return nil, fmt.Errorf("nobody listens at %s", addr)
		}
		return (&net.Dialer{}).DialContext(ctx, network, other.Listener.Addr().String())
	}}
	w := newWorld(t, func(c *httpapi.Config) {
		c.Groups, c.Delegate, c.OpenAPI = agg, agg, agg.Docs(openapi.New(c.Kinds))
	})
	for i, name := range []string{"x", "dead"} {
		w.must("POST", "/apis/apiregistration.k8s.io/v1/apiservices",
			fmt.Sprintf(`{"metadata":{"name":"v1.%s.example"},"spec":{"group":"%[1]s.example",
			"version":"v1","groupPriorityMinimum":2000,"versionPriority":15,"service":{"namespace":"ns","name":"%[1]s"},
			  "insecureSkipTLSVerify":true}}`, name), 201)
		w.must("POST", "/api/v1/namespaces/ns/services",
			fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"clusterIP":"None","ports":[{"port":443}]}}`, name), 201)
		w.must("POST", "/apis/discovery.k8s.io/v1/namespaces/ns/endpointslices",
			fmt.Sprintf(`{"metadata":{"name":"%s-1","labels":{"kubernetes.io/service-name":%[1]q}},
			"addressType":"IPv4","ports":[{"port":8443,"name":""}],"endpoints":[{"addresses":["10.9.8.%d"]}]}`, name, 7+i), 201)
	}
	return w, a, agg
}

// What others describe is part of the documents; who is dead is missing.
func TestAggregatedOpenAPI(t *testing.T) {
	w, a, _ := aggregating(t)
	index := w.must("GET", "/openapi/v3", "", 200).tree(t)
	link, _ := at(index, "paths", "apis/x.example/v1", "serverRelativeURL").(string)
	if !strings.HasPrefix(link, "/openapi/v3/apis/x.example/v1?hash=") || at(index, "paths", "apis/dead.example/v1") != nil ||
		at(index, "paths", "apis/other/v1") != nil || at(index, "paths", "api/v1") == nil {
		t.Errorf("index: %v", index["paths"])
	}
	if got := w.must("GET", link, "", 200); !strings.Contains(string(got.body), `"/apis/x.example/v1/":{}`) {
		t.Errorf("v3: %s", got.body)
	}
	w.must("GET", link, "", 200, "Accept", "application/com.github.proto-openapi.spec.v3@v1.0+protobuf")
	if n := a.fetched.Load(); n != 1 {
		t.Errorf("the document was fetched %d times", n)
	}
	first := w.must("GET", "/openapi/v2", "", 200)
	doc := first.tree(t)
	defs, _ := doc["definitions"].(map[string]any)
	if at(doc, "paths", "/apis/x.example/v1/things") == nil || at(doc, "paths", "/apis/elsewhere/v1/") != nil ||
		defs["example.Unused"] != nil ||
		at(doc, "definitions", "example.Thing", "properties", "pod", "$ref") != "#/definitions/io.k8s.api.core.v1.Pod_v2" ||
		at(doc, "definitions", "io.k8s.api.core.v1.Pod_v2", "description") != "another pod" {
		t.Errorf("v2: %v", defs["example.Thing"])
	}
	w.must("GET", "/openapi/v2", "", 304, "If-None-Match", first.header.Get("ETag"))
	if got := w.must("GET", "/openapi/v2", "", 200, "Accept",
		"application/com.github.proto-openapi.spec.v2@v1.0+protobuf"); !strings.Contains(string(got.body), "example.Thing") {
		t.Error("the protobuf form lacks the other's types")
	}
}

// Who knows OpenAPI v2 only is described in v3 all the same.
func TestAggregatedOldOpenAPI(t *testing.T) {
	w, a, _ := aggregating(t)
	a.old.Store(true)
	index := w.must("GET", "/openapi/v3", "", 200).tree(t)
	link, _ := at(index, "paths", "apis/x.example/v1", "serverRelativeURL").(string)
	if link == "" {
		t.Fatalf("index: %v", index["paths"])
	}
	doc := w.must("GET", link, "", 200).tree(t)
	if doc["openapi"] != "3.0.0" || at(doc, "info", "title") != "x" || at(doc, "paths", "/apis/elsewhere/v1/") != nil ||
		at(doc, "paths", "/apis/x.example/v1/things", "get", "responses", "200", "content", "application/json", "schema",
			"$ref") != "#/components/schemas/example.Thing" ||
		at(doc, "components", "schemas", "example.Thing", "properties", "pod", "$ref") != "#/components/schemas/io.k8s.api.core.v1.Pod" {
		t.Errorf("v3: %v", doc)
	}
	w.must("GET", link, "", 200, "Accept", "application/com.github.proto-openapi.spec.v3@v1.0+protobuf")
}

// A dead server delays nothing, and is told of.
func TestDeadServer(t *testing.T) {
	w, a, agg := aggregating(t)
	all := string(w.must("GET", "/apis", "", 200, "Accept", aggregated).body)
	if !strings.Contains(all, `"freshness":"Stale"`) || !strings.Contains(all, "things") {
		t.Errorf("discovery: %s", all)
	}
	w.must("GET", "/apis/dead.example/v1/things", "", 503)
	a.things.Store(3)
	left, dead, err := agg.Empty(t.Context(), "ns")
	if err != nil || len(left) > 0 || len(dead) != 1 || !strings.HasPrefix(dead[0], "dead.example/v1: ") || a.things.Load() != 0 {
		t.Errorf("left %v, dead %v, %v", left, dead, err)
	}
}

// Connections that are upgraded pass through, with the caller's name.
func TestAggregatedUpgrade(t *testing.T) {
	w, _, _ := aggregating(t)
	srv := w.serve()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET /apis/x.example/v1/namespaces/ns/things/a/shell HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v %v", resp, err)
	}
	fmt.Fprint(conn, "hello\n")
	if got, _ := io.ReadAll(r); string(got) != "system:admin says hello\n" {
		t.Errorf("%q", got)
	}
}
