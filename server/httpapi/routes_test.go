package httpapi_test

import (
	"context"
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/kinds/authorization"
	"github.com/kloop-dev/kloop/server/httpapi"
	"github.com/kloop-dev/kloop/server/httpapi/health"
)

// Upstream's router refuses content types before anything warns of a deprecated kind, or looks at the path.
func TestNoWarningOfWhatIsNotRouted(t *testing.T) {
	w := newWorld(t)
	const endpoints = "/api/v1/namespaces/ns/endpoints"
	for _, x := range []struct {
		method, path, header, value string
		code                        int
		warned                      bool
	}{
		{"GET", endpoints, "Accept", "application/json", 200, true},
		{"GET", endpoints, "Accept", "text/html", 406, false},
		{"GET", endpoints, "Accept", "application/json;as=Table;v=v9;g=meta.k8s.io", 406, true},
		{"PATCH", endpoints + "/a", "Content-Type", "application/json", 415, false},
		{"PATCH", endpoints + "/a", "Content-Type", "application/merge-patch+json", 404, true},
		{"POST", endpoints, "Content-Type", "text/plain", 415, true},
		{"PATCH", "/api/v1/namespaces/%2e%2e", "Content-Type", "application/json", 415, false},
	} {
		t.Run(x.method, func(t *testing.T) {
			got := w.must(x.method, x.path, "{}", x.code, x.header, x.value)
			if warned := got.header.Get("Warning") != ""; warned != x.warned {
				t.Errorf("%s %s as %s: warned %v", x.method, x.path, x.value, warned)
			}
		})
	}
}

// Whatever is wrong with a binding is told at once.
func TestBadBinding(t *testing.T) {
	w := newWorld(t)
	w.must("POST", "/api/v1/namespaces/ns/pods", `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`, 201)
	const kind, name = `target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"`, "target.name: Required value"
	for target, want := range map[string]string{`"kind":"Pod","name":"n"`: kind, `"kind":"Node"`: name,
		`"kind":"Pod"`: "[" + kind + ", " + name + "]"} {
		t.Run(target, func(t *testing.T) {
			body := `{"metadata":{"name":"p"},"target":{` + target + `}}`
			if st := w.must("POST", "/api/v1/namespaces/ns/pods/p/binding", body, 500).status(t); st.Message != want {
				t.Errorf("said %s, want %s", st.Message, want)
			}
		})
	}
}

// Nothing is connected to for the sake of a dry run; a log is read.
func TestNoDryConnections(t *testing.T) {
	w := newWorld(t)
	for path, code := range map[string]int{"pods/m/exec": 400, "pods/m/proxy/x": 400, "services/m/proxy": 400, "pods/m/log": 404} {
		t.Run(path, func(t *testing.T) {
			st := w.must("GET", "/api/v1/namespaces/ns/"+path+"?dryRun=All", "", code).status(t)
			if (code == 400) != (st.Message == "dryRun is not supported") {
				t.Errorf("said %s", st.Message)
			}
		})
	}
}

// A refusal names what a path answers in, indented for the person who seems to read it.
func TestRepresentations(t *testing.T) {
	w := newWorld(t)
	const objects, streams = "application/json, application/yaml, application/vnd.kubernetes.protobuf",
		", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
	const coll = "/api/v1/namespaces/ns/configmaps"
	for _, x := range []struct{ method, path, want string }{
		{"GET", coll, objects + streams}, {"GET", "/api/v1/configmaps", objects + streams}, {"GET", coll + "/a?watch=1", objects},
		{"GET", "/api/v1/watch/namespaces/ns/configmaps/a", objects + streams}, {"POST", coll, objects}, {"DELETE", coll, objects},
		{"GET", "/api/v1", objects}, {"GET", "/version", "application/json"},
		{"GET", "/api/v1/namespaces/ns/pods/a/log", "text/plain, " + objects},
	} {
		t.Run(x.method+x.path, func(t *testing.T) {
			got := w.must(x.method, x.path, "{}", 406, "Accept", "text/html")
			if m := got.status(t).Message; m != "406: Not Acceptable\n\nAvailable representations: "+x.want {
				t.Errorf("said %q", m)
			}
			if !strings.HasPrefix(string(got.body), "{\n  \"kind\"") {
				t.Errorf("sent %s", got.body)
			}
		})
	}
}

// What code answers, reviews among it, has no columns: a table of it is refused, unless something else will do.
func TestNoTablesOfAnswers(t *testing.T) {
	w := newWorld(t)
	if err := w.kinds.Put(authorization.SelfSubjectAccessReviews); err != nil {
		t.Fatal(err)
	}
	const table = "application/json;as=Table;v=v1;g=meta.k8s.io"
	review, node := `{"spec":{"resourceAttributes":{"verb":"get"}}}`, `{"metadata":{"name":"p"},"target":{"name":"n"}}`
	for _, x := range []struct{ path, body string }{
		{"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review},
		{"/api/v1/namespaces/ns/bindings", node}, {"/api/v1/namespaces/ns/pods/p/binding", node},
		{"/api/v1/namespaces/ns/pods/p/eviction", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p"}}`},
		{"/api/v1/namespaces/ns/serviceaccounts/a/token", `{}`},
	} {
		t.Run(x.path, func(t *testing.T) {
			w.must("POST", x.path, x.body, 406, "Accept", table)
			if got := w.do("POST", x.path, x.body, "Accept", table+",application/json"); got.code == 406 {
				t.Errorf("%s: %s", x.path, got.body)
			}
		})
	}
	w.must("GET", "/api/v1/componentstatuses", "", 200, "Accept", table)
}

// A name in the path is repeated in the body of what is done to a pod.
func TestNamesOfWhatIsDoneToPods(t *testing.T) {
	w := newWorld(t)
	w.must("POST", "/api/v1/namespaces/ns/pods/p/binding", `{"target":{"name":"n"}}`, 400)
	w.must("POST", "/api/v1/namespaces/ns/pods/p/binding", `{}`, 400)
	w.must("POST", "/api/v1/namespaces/ns/pods/p/eviction", `{}`, 400)
	w.must("POST", "/api/v1/namespaces/ns/bindings", `{"target":{"name":"n"}}`, 400)
}

// Errors of what is deleted in a way of its own name the resource, others the kind.
func TestPreconditionNames(t *testing.T) {
	w := newWorld(t)
	w.must("POST", "/api/v1/namespaces/ns/configmaps", `{"metadata":{"name":"a"}}`, 201)
	const other = `{"preconditions":{"uid":"00000000-0000-0000-0000-000000000000"}}`
	for path, kind := range map[string]string{"/api/v1/namespaces/ns": "namespaces", "/api/v1/namespaces/ns/configmaps/a": "ConfigMap"} {
		t.Run(path, func(t *testing.T) {
			if st := w.must("DELETE", path, other, 409).status(t); st.Details.Kind != kind {
				t.Errorf("%s: %+v", path, st.Details)
			}
		})
	}
}

// The list of groups answers to every method; the documents of issuers also below a slash.
func TestMethodsOfPages(t *testing.T) {
	w := newWorld(t, func(c *httpapi.Config) { c.Issuer = issuer{} })
	for _, x := range []struct {
		method, path string
		code         int
	}{
		{"POST", "/apis", 200}, {"HEAD", "/apis/", 200}, {"POST", "/api", 405}, {"POST", "/apis/apps", 200}, {"POST", "/apis/apps/v1", 405},
		{"GET", "/openid/v1/jwks/", 200}, {"POST", "/openid/v1/jwks/", 405}, {"GET", "/openid/v1/jwks/x", 404},
		{"GET", "/.well-known/openid-configuration/", 200},
	} {
		w.must(x.method, x.path, "", x.code)
	}
	if st := w.must("GET", "/api/v1/componentstatuses/x", "", 404).status(t); st.Details.Kind != "componentstatus" {
		t.Errorf("%+v", st.Details)
	}
}

// Checks come in upstream's order, and each only at the endpoints that upstream has it at.
func TestOrderOfChecks(t *testing.T) {
	w := newWorld(t, checksLikeACluster)
	for endpoint, want := range map[string]string{
		"livez":   "ping log loopback-serving-certificate etcd begun",
		"healthz": "ping log loopback-serving-certificate etcd begun kms-providers",
		"readyz":  "ping log etcd etcd-readiness informer-sync begun kms-providers shutdown",
	} {
		t.Run(endpoint, func(t *testing.T) {
			var got []string
			for line := range strings.Lines(string(w.must("GET", "/"+endpoint+"?verbose", "", 200).body)) {
				if name, ok := strings.CutPrefix(line, "[+]"); ok {
					got = append(got, strings.TrimSuffix(name, " ok\n"))
				}
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%s: %v", endpoint, got)
			}
		})
	}
	w.must("GET", "/livez/loopback-serving-certificate", "", 200)
	w.must("GET", "/readyz/loopback-serving-certificate", "", 404)
	w.must("GET", "/healthz/etcd-readiness", "", 404)
}

func checksLikeACluster(c *httpapi.Config) {
	c.Live, c.Begun = checks("etcd"), checks("begun")
	c.Traffic, c.Ready = checks("etcd-readiness", "informer-sync"), checks("kms-providers")
}

// checks that are all well.
func checks(names ...string) (list []health.Check) {
	for _, name := range names {
		list = append(list, health.Check{Name: name, Run: func(context.Context) error { return nil }})
	}
	return list
}

// What upstream took away is refused, not passed over.
func TestNoExport(t *testing.T) {
	w := newWorld(t)
	for query, code := range map[string]int{"export=true": 400, "export=1": 400, "export": 400, "export=false": 200, "export=what": 400} {
		w.must("GET", "/api/v1/namespaces/ns?"+query, "", code)
		w.must("GET", "/api/v1/namespaces?"+query, "", 200)
	}
}

// How much is logged can be changed while the server runs, where somebody takes it.
func TestDebugFlags(t *testing.T) {
	newWorld(t).must("PUT", "/debug/flags/v", "4", 404)
	var at []int
	w := newWorld(t, func(c *httpapi.Config) { c.Verbosity = func(n int) { at = append(at, n) } })
	if got := w.must("PUT", "/debug/flags/v", "4", 200); string(got.body) != "successfully set klog.logging.verbosity to 4\n" {
		t.Errorf("%s", got.body)
	}
	w.must("PUT", "/debug/flags/v", "much", 400)
	w.must("PUT", "/debug/flags/v", strings.Repeat("4", 1000), 400)
	w.must("POST", "/debug/flags/v", "4", 406)
	if got := w.must("GET", "/debug/flags", "", 200); !strings.Contains(string(got.body), "<tr>v<br>") {
		t.Errorf("%s", got.body)
	}
	if len(at) != 1 || at[0] != 4 {
		t.Errorf("set to %v", at)
	}
}
