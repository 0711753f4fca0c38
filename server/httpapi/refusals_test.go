package httpapi_test

import (
	"strings"
	"testing"
)

// What is wrong with a request is answered in upstream's order, and a stranger learns nothing but that.
func TestOrderOfRefusals(t *testing.T) {
	w := newWorld(t)
	const coll, merge = "/api/v1/namespaces/ns/configmaps", "application/merge-patch+json"
	w.configMap("a", "v")
	for _, x := range []struct {
		method, path, typ, accept string
		code                      int
	}{
		{"POST", coll + "?fieldValidation=x", "text/plain", "", 415},
		{"POST", coll + "?fieldValidation=x", "text/plain", "application/json;as=Table;v=v9;g=meta.k8s.io", 406},
		{"POST", "/api/v1/namespaces/ns/serviceaccounts/a/token?dryRun=x", "text/plain", "", 415},
		{"PUT", coll + "/a?fieldValidation=x", "text/plain", "", 422},
		{"PATCH", coll + "/a?fieldValidation=x", merge, "application/json;as=Table;v=v9;g=meta.k8s.io", 406},
		{"GET", coll + "?limit=x", "", "text/html", 406},
		{"GET", coll + "?limit=x", "", "", 400},
		{"GET", coll + "?watch=x&limit=x", "", "", 400},
		{"GET", coll + "?watch=1&resourceVersionMatch=Exact", "", "application/yaml", 422},
		{"GET", coll + "?watch=1", "", "application/yaml", 406},
		{"GET", coll + "?resourceVersionMatch=Exact&labelSelector=a+b+c", "", "", 400},
		{"POST", "/api/v1/namespaces/ns/serviceaccounts//token", "", "", 400},
		{"GET", "/api/v1/namespaces/ns/pods//status", "", "", 400},
		{"GET", "/api/v1/namespaces/ns/configmaps//status", "", "", 404},
		{"GET", "/apis//v1/namespaces/ns/configmaps", "", "", 404},
		{"GET", "/api/v1/proxy", "", "", 500},
		{"POST", "/apis/apps/v1/watch/", "", "", 500},
		{"GET", "/api/v1/proxy/namespaces/ns/pods/a/x", "", "", 404},
		{"GET", "/api/v1/proxy/x", "", "", 404},
	} {
		t.Run(x.method, func(t *testing.T) {
			w.must(x.method, x.path, "{}", x.code, "Content-Type", x.typ, "Accept", x.accept)
		})
	}
	w.must("GET", coll+"?limit=x", "", 401, "Test-User", "liar")
	w.must("GET", coll+"?limit=x", "", 403, "Test-User", "eve")
	w.must("GET", "/apis//v1/namespaces/ns/configmaps", "", 403, "Test-User", "eve")
	w.must("GET", "/api/v1/watch", "", 500, "Test-User", "liar")
	got := w.must("GET", "/api/v1/proxy/namespaces/ns/pods/a/x", "", 403, "Test-User", "eve").tree(t)
	if at(got, "details", "kind") != "pods" || at(got, "details", "name") != "a" {
		t.Errorf("a proxy is refused as %v", at(got, "details"))
	}
}

// A table is of the object as it is stored: another version may keep less of it.
func TestTableOfAnotherVersion(t *testing.T) {
	w := newWorld(t)
	const hpas, table = "/namespaces/ns/horizontalpodautoscalers", "application/json;as=Table;v=v1;g=meta.k8s.io"
	w.must("POST", "/apis/autoscaling/v2"+hpas, `{"metadata":{"name":"a"},"spec":{"minReplicas":2,"maxReplicas":3}}`, 201)
	for _, path := range []string{hpas, hpas + "/a"} {
		got := w.must("GET", "/apis/autoscaling/v1"+path, "", 200, "Accept", table).tree(t)
		if at(got, "rows", 0, "cells", 1) != 2.0 {
			t.Errorf("%s: %v", path, at(got, "rows", 0, "cells"))
		}
	}
}

// Times are of whole seconds once they are stored: what an event says in its other version is no change.
func TestTimesOfEvents(t *testing.T) {
	w := newWorld(t)
	const merge, path = "application/merge-patch+json", "/namespaces/ns/events/e"
	w.must("POST", "/api/v1/namespaces/ns/events", `{"metadata":{"name":"e"},"involvedObject":{"namespace":"ns"},"count":1}`, 201)
	w.must("PATCH", "/api/v1"+path, `{"lastTimestamp":"2024-01-02T03:04:05.6Z"}`, 200, "Content-Type", merge)
	w.must("PATCH", "/apis/events.k8s.io/v1"+path, `{"series":{"count":5,"lastObservedTime":"2024-01-02T03:04:05.000006Z"}}`, 200,
		"Content-Type", merge)
}

// A merge patch that is a list takes the place of the object, which then is none; whoever looks at fields says so first.
func TestMergePatchOfAList(t *testing.T) {
	w := newWorld(t)
	w.configMap("a", "v")
	const one, merge = "/api/v1/namespaces/ns/configmaps/a", "application/merge-patch+json"
	w.must("PATCH", one, "[]", 400, "Content-Type", merge)
	st := w.must("PATCH", one+"?fieldValidation=Ignore", "[]", 422, "Content-Type", merge).status(t)
	if len(st.Details.Causes) != 1 || st.Details.Causes[0].Field != "patch" {
		t.Errorf("%+v", st)
	}
}

// TestWordsOfRefusals: in which words it is told that a deletion or a patch does not fit what is stored (recorded from 1.37.2).
func TestWordsOfRefusals(t *testing.T) {
	w := newWorld(t)
	w.configMap("a", "v")
	w.must("POST", "/api/v1/namespaces", `{"metadata":{"name":"old","uid":"u"}}`, 201)
	const merge = "application/merge-patch+json"
	for _, x := range []struct{ name, method, path, typ, body, want string }{
		{"uid of a namespace", "DELETE", "/api/v1/namespaces/old", "application/json", `{"preconditions":{"uid":"x","resourceVersion":"1"}}`,
			`Operation cannot be fulfilled on namespaces "old": Precondition failed: UID in precondition: x, UID in object meta: `},
		{"revision of a namespace", "DELETE", "/api/v1/namespaces/old", "application/json", `{"preconditions":{"resourceVersion":"1"}}`,
			`Operation cannot be fulfilled on namespaces "old": Precondition failed: ResourceVersion in precondition: 1, ResourceVersion in `},
		{"uid of others", "DELETE", "/api/v1/namespaces/ns/configmaps/a", "application/json", `{"preconditions":{"uid":"x"}}`,
			`Operation cannot be fulfilled on ConfigMap "a": the UID in the precondition (x) does not match the UID in record (`},
		{"uid of an update", "PUT", "/api/v1/namespaces/ns/configmaps/a", "application/json", `{"metadata":{"name":"a","uid":"x"}}`,
			`Operation cannot be fulfilled on configmaps "a": StorageError: invalid object, Code: 4, Key: /registry/configmaps/ns/a, ` +
				`ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: x, UID in object meta: `},
		{"another namespace", "PUT", "/api/v1/namespaces/ns/configmaps/b", "application/json", `{"metadata":{"name":"a","namespace":"x"}}`,
			`the namespace of the provided object does not match the namespace sent on the request`},
		{"another kind", "PATCH", "/api/v1/namespaces/ns/configmaps/a", merge, `{"kind":"X","apiVersion":"v9","metadata":null}`,
			` "" is invalid: patch: Invalid value: "{\"kind\":\"X\",\"apiVersion\":\"v9\",\"data\":{\"k\":\"v\"}}": ` +
				`no kind "X" is registered for version "v9" in scheme "pkg/runtime/scheme.go:111"`},
		{"no bytes applied", "PATCH", "/api/v1/namespaces/ns/configmaps/a?fieldManager=m", "application/apply-patch+yaml",
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"binaryData":{"a":"*"}}`,
			`failed to convert new object (/a; /v1, Kind=ConfigMap) to proper version: unable to convert unstructured object to ` +
				`/v1, Kind=ConfigMap: error decoding from json: illegal base64 data at input byte 0`},
		{"odd option of a table", "GET", "/api/v1/namespaces/ns/configmaps/a?includeObject=X", "", "",
			`Unable to convert to Table as requested: includeObject: Invalid value: "X": must be 'Metadata', 'Object', 'None', or empty`},
		{"odd field", "PATCH", "/api/v1/namespaces/ns/configmaps/a?fieldValidation=Strict", merge,
			`{"bogus":{"z":1,"a":2},"data":{"z":"1","a":"2"}}`,
			` "" is invalid: patch: Invalid value: "{\"apiVersion\":\"v1\",\"bogus\":{\"a\":2,\"z\":1},\"data\":{\"a\":\"2\",`},
	} {
		t.Run(x.name, func(t *testing.T) {
			got := w.do(x.method, x.path, x.body, "Content-Type", x.typ, "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io, */*")
			if said, _ := at(got.tree(t), "message").(string); !strings.HasPrefix(said, x.want) {
				t.Errorf("\n got %s\nwant %s", said, x.want)
			}
		})
	}
}

// An applied scale that names a revision which is not the present one is refused, whatever it would change.
func TestAppliedScaleOfAnotherRevision(t *testing.T) {
	w := newWorld(t)
	const path, apply = "/apis/apps/v1/namespaces/ns/deployments", "application/apply-patch+yaml"
	w.must("POST", path, `{"metadata":{"name":"d"},"spec":{"replicas":1,"selector":{"matchLabels":{"a":"b"}},
		"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`, 201)
	for _, replicas := range []string{"1", "3"} {
		w.must("PATCH", path+"/d/scale?fieldManager=m&force=true", `{"apiVersion":"autoscaling/v1","kind":"Scale",
			"metadata":{"name":"d","resourceVersion":"1"},"spec":{"replicas":`+replicas+`}}`, 409, "Content-Type", apply)
	}
}
