package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/resource/codec"
)

func TestAnswers(t *testing.T) {
	w := newWorld(t)
	w.configMap("a", "v")
	cm := `{"metadata":{"name":"b"}}`
	const coll, one = "/api/v1/namespaces/ns/configmaps", "/api/v1/namespaces/ns/configmaps/a"
	tests := []struct {
		name, method, path, body string
		headers                  []string
		code                     int
		reason                   metav1.StatusReason
		message                  string
	}{
		{"get", "GET", one, "", nil, 200, "", ""},
		{"name of no key", "GET", coll + "/a%25b", "", nil, 400, metav1.StatusReasonBadRequest,
			`Name parameter invalid: "a%b": may not contain '%'`},
		{"trailing slash", "GET", one + "/", "", nil, 200, "", ""},
		{"double slash", "GET", "/api/v1//namespaces/ns", "", nil, 404, metav1.StatusReasonNotFound,
			"the server could not find the requested resource"},
		{"missing", "GET", coll + "/zz", "", nil, 404, metav1.StatusReasonNotFound, `configmaps "zz" not found`},
		{"unknown resource", "GET", "/api/v1/foos", "", nil, 404, metav1.StatusReasonNotFound,
			"the server could not find the requested resource"},
		{"unknown subresource", "GET", one + "/status", "", nil, 404, metav1.StatusReasonNotFound,
			"the server could not find the requested resource"},
		{"object without namespace", "GET", "/api/v1/configmaps/a", "", nil, 404, metav1.StatusReasonNotFound, ""},
		{"namespace too many", "GET", "/api/v1/namespaces/ns/nodes", "", nil, 404, metav1.StatusReasonNotFound, ""},
		{"delete across namespaces", "DELETE", "/api/v1/configmaps", "", nil, 405, metav1.StatusReasonMethodNotAllowed,
			"the server does not allow this method on the requested resource"},
		{"head", "HEAD", one, "", nil, 405, metav1.StatusReasonMethodNotAllowed, ""},
		{"trace", "TRACE", one, "", nil, 405, metav1.StatusReasonMethodNotAllowed, ""},
		{"post to object", "POST", one, cm, nil, 405, metav1.StatusReasonMethodNotAllowed, ""},
		{"watch of what is not watched", "GET", "/api/v1/componentstatuses?watch=1", "", nil, 405, metav1.StatusReasonMethodNotAllowed,
			`watch is not supported on resources of kind "componentstatuses"`},
		{"watch of what is not watched, of a bad selector", "GET", "/api/v1/componentstatuses?watch=1&labelSelector=(", "", nil, 400,
			metav1.StatusReasonBadRequest, ""},
		{"watch of what is not watched, of a bad field", "GET", "/api/v1/componentstatuses?watch=1&fieldSelector=a%3Db", "", nil, 400,
			metav1.StatusReasonBadRequest, ""},
		{"watch of what is not watched, with bad options", "GET", "/api/v1/componentstatuses?watch=1&resourceVersionMatch=Exact", "", nil,
			422, metav1.StatusReasonInvalid, ""},
		{"bad options for what is computed", "GET", "/api/v1/componentstatuses?resourceVersionMatch=Exact", "", nil, 422,
			metav1.StatusReasonInvalid, ""},
		{"selector before options of a deletion", "DELETE", coll + "?labelSelector=(&dryRun=x", "", nil, 400, metav1.StatusReasonBadRequest, ""},
		{"field before options of a deletion", "DELETE", coll + "?fieldSelector=x%3Dy", `{"propagationPolicy":"x"}`, nil, 400,
			metav1.StatusReasonBadRequest, ""},
		{"selector before the body of a deletion", "DELETE", coll + "?labelSelector=(", `{`, nil, 400, metav1.StatusReasonBadRequest,
			"found '(', expected: !, identifier, or 'end of string'"},
		{"bad parameter", "GET", coll + "?limit=x", "", nil, 400, metav1.StatusReasonBadRequest, ""},
		{"bad timeout", "GET", coll + "?timeout=x", "", nil, 400, metav1.StatusReasonBadRequest,
			`invalid timeout specified in the request URL - time: invalid duration "x"`},
		{"timeout", "GET", coll + "?timeout=50s", "", nil, 200, "", ""},
		{"timeout of nothing", "GET", coll + "?timeout=0s", "", nil, 200, "", ""},
		{"timeout beyond the limit", "GET", coll + "?timeout=5000h", "", nil, 200, "", ""},
		{"unknown parameter", "GET", coll + "?foo=x", "", nil, 200, "", ""},
		{"bad revision of a list", "GET", coll + "?resourceVersion=x", "", nil, 400, metav1.StatusReasonBadRequest,
			`invalid resource version: resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax`},
		{"bad revision of an event", "GET", "/api/v1/namespaces/ns/events/e?resourceVersion=x", "", nil, 400, metav1.StatusReasonBadRequest,
			`invalid resource version: resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax`},
		{"bad token", "GET", coll + "?continue=e30&resourceVersion=5", "", nil, 400, metav1.StatusReasonBadRequest,
			"invalid continue token: continue key is not valid: server does not recognize this encoded version "},
		{"old watch of another", "GET", "/api/v1/watch/namespaces/ns/configmaps/a?fieldSelector=metadata.name%3Db", "", nil, 400,
			metav1.StatusReasonBadRequest,
			"fieldSelector metadata.name doesn't match requested name"},
		{"old watch by another method", "POST", "/api/v1/watch/namespaces/ns/configmaps", cm, nil, 405, metav1.StatusReasonMethodNotAllowed, ""},
		{"old watch of what is not watched", "GET", "/api/v1/watch/componentstatuses", "", nil, 404, metav1.StatusReasonNotFound, ""},
		{"bad options", "GET", coll + "?resourceVersionMatch=Exact", "", nil, 422, metav1.StatusReasonInvalid, ""},
		{"create", "POST", coll, cm, nil, 201, "", ""},
		{"create again", "POST", coll, cm, nil, 409, metav1.StatusReasonAlreadyExists, `configmaps "b" already exists`},
		{"dry run", "POST", coll + "?dryRun=All", `{"metadata":{"name":"c"}}`, nil, 201, "", ""},
		{"bad dry run", "POST", coll + "?dryRun=Some", cm, nil, 422, metav1.StatusReasonInvalid, ""},
		{"media type", "POST", coll, cm, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415,
			metav1.StatusReasonUnsupportedMediaType,
			"the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, " +
				"application/vnd.kubernetes.protobuf"},
		{"cbor", "POST", coll, cm, []string{"Content-Type", "application/cbor"}, 415, metav1.StatusReasonUnsupportedMediaType, ""},
		{"charset", "POST", coll, `{"metadata":{"name":"d"}}`, []string{"Content-Type", "application/json; charset=utf-8"}, 201, "", ""},
		{"yaml", "POST", coll, "metadata: {name: e}\n", []string{"Content-Type", "application/yaml"}, 201, "", ""},
		{"not json", "POST", coll, "{", nil, 400, metav1.StatusReasonBadRequest, ""},
		{"number", "POST", coll, "5", nil, 400, metav1.StatusReasonBadRequest,
			`the object provided is unrecognized (must be of type ConfigMap): ` +
				`couldn't get version/kind; json parse error: json: cannot unmarshal number into Go value of type struct { ` +
				`APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" } (35)`},
		{"list in yaml", "POST", coll, "- x", []string{"Content-Type", codec.YAML}, 400, metav1.StatusReasonBadRequest,
			`the object provided is unrecognized ` +
				`(must be of type ConfigMap): couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type ` +
				`struct { ` +
				`APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" } (2d2078)`},
		{"bad yaml", "POST", coll, "a: [", []string{"Content-Type", codec.YAML}, 400, metav1.StatusReasonBadRequest,
			"the object provided is unrecognized (must be of type ConfigMap): yaml: line 1: did not find expected node content (613a205b)"},
		{"bad version", "POST", coll, `{"apiVersion":"a/b/c"}`, nil, 400, metav1.StatusReasonBadRequest, "the object provided is unrecognized " +
			"(must be of type ConfigMap): unexpected GroupVersion string: a/b/c ({\"apiVersion\":\"a/b/c\"})"},
		{"garbage protobuf", "POST", coll, "garbage", []string{"Content-Type", codec.Protobuf}, 400, metav1.StatusReasonBadRequest,
			"the object provided is unrecognized " +
				"(must be of type ConfigMap): provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] (67617262616765)"},
		{"no protobuf", "POST", coll, "k8s\x00", []string{"Content-Type", codec.Protobuf}, 400, metav1.StatusReasonBadRequest,
			"the object provided is unrecognized (must be of type ConfigMap): empty body (6b387300)"},

		{"other kind", "POST", coll, `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"x"}}`, nil, 400, metav1.StatusReasonBadRequest, ""},
		{"other version", "POST", coll, `{"kind":"ConfigMap","apiVersion":"apps/v1","metadata":{"name":"x"}}`, nil, 400,
			metav1.StatusReasonBadRequest,
			`ConfigMap in version "v1" cannot be handled as a ConfigMap: no kind "ConfigMap" is registered for version "apps/v1" in scheme ` +
				`"pkg/runtime/scheme.go:111"`},
		{"strict", "POST", coll + "?fieldValidation=Strict", `{"metadata":{"name":"x"},"foo":1,"data":{"a":"b","a":"c"}}`, nil, 400,
			metav1.StatusReasonBadRequest,
			`ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "foo", duplicate field "data.a"`},
		{"put other name", "PUT", one, cm, nil, 400, metav1.StatusReasonBadRequest,
			"the name of the object (b) does not match the name on the URL (a)"},
		{"put no name", "PUT", one, "{}", nil, 400, metav1.StatusReasonBadRequest, ""},
		{"put", "PUT", one, `{"metadata":{"name":"a"},"data":{"k":"2"}}`, nil, 200, "", ""},
		{"patch", "PATCH", one, `{"data":{"k":"3"}}`, []string{"Content-Type", "application/merge-patch+json"}, 200, "", ""},
		{"apply creates", "PATCH", coll + "/applied?fieldManager=me",
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"applied"}}`, []string{"Content-Type", "application/apply-patch+yaml"},
			201, "", ""},
		{"apply without manager", "PATCH", one, `{}`, []string{"Content-Type", "application/apply-patch+yaml"}, 422,
			metav1.StatusReasonInvalid, ""},
		{"patch of json", "PATCH", one, `{}`, nil, 415, metav1.StatusReasonUnsupportedMediaType, ""},
		{"not acceptable", "GET", one, "", []string{"Accept", "text/html"}, 406, metav1.StatusReasonNotAcceptable, ""},
		{"cbor wanted", "GET", one, "", []string{"Accept", "application/cbor"}, 406, metav1.StatusReasonNotAcceptable, ""},
		{"unknown shape", "GET", one, "", []string{"Accept", "application/json;as=Foo;v=v1;g=meta.k8s.io"}, 406, metav1.StatusReasonNotAcceptable,
			"only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"},
		{"bad delete options", "DELETE", one, `{"propagationPolicy":"Foo"}`, nil, 422, metav1.StatusReasonInvalid, ""},
		{"delete", "DELETE", one, "", nil, 200, "", ""},
		{"no group", "GET", "/apis/none.example", "", nil, 404, "", "404 page not found\n"},
		{"no path", "GET", "/no/such", "", nil, 404, "", "404 page not found\n"},
		{"no version", "GET", "/apis/apps/v9", "", nil, 404, metav1.StatusReasonNotFound, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := w.do(tt.method, tt.path, tt.body, tt.headers...)
			if got.code != tt.code {
				t.Fatalf("code %d, want %d: %s", got.code, tt.code, got.body)
			}
			if tt.reason == "" {
				if tt.message != "" && string(got.body) != tt.message {
					t.Errorf("body %q, want %q", got.body, tt.message)
				}
				return
			}
			if tt.method == "HEAD" {
				return
			}
			st := got.status(t)
			if st.Kind != "Status" || st.APIVersion != "v1" || st.Status != "Failure" || int(st.Code) != tt.code || st.Reason != tt.reason {
				t.Errorf("status %+v", st)
			}
			if tt.message != "" && st.Message != tt.message {
				t.Errorf("message\n%s, want\n%s", st.Message, tt.message)
			}
		})
	}
}

func TestTooLarge(t *testing.T) {
	w := newWorld(t)
	body := `{"metadata":{"name":"x"},"data":{"a":"` + strings.Repeat("x", 3200000) + `"}}`
	st := w.must("POST", "/api/v1/namespaces/ns/configmaps", body, 413).status(t)
	if st.Reason != metav1.StatusReasonRequestEntityTooLarge || !strings.Contains(st.Message, "limit is 3145728") {
		t.Errorf("status %+v", st)
	}
}

func TestDeletedAnswers(t *testing.T) {
	w := newWorld(t)
	w.configMap("a", "v")
	got := w.must("DELETE", "/api/v1/namespaces/ns/configmaps/a", "", 200).tree(t)
	if got["kind"] != "Status" || got["status"] != "Success" || at(got, "details", "kind") != "configmaps" ||
		at(got, "details", "uid") == nil || got["code"] != nil {
		t.Errorf("answer to a deletion: %v", got)
	}
	w.must("POST", "/api/v1/namespaces/ns/serviceaccounts", `{"metadata":{"name":"a"}}`, 201)
	got = w.must("DELETE", "/api/v1/namespaces/ns/serviceaccounts/a", "", 200).tree(t)
	if got["kind"] != "ServiceAccount" {
		t.Errorf("answer to the deletion of a service account: %v", got)
	}
}

func TestWarnings(t *testing.T) {
	w := newWorld(t)
	got := w.must("POST", "/api/v1/namespaces/ns/configmaps", `{"metadata":{"name":"x"},"foo":1,"bar":2}`, 201)
	want := []string{`299 - "unknown field \"bar\""`, `299 - "unknown field \"foo\""`}
	if list := got.header.Values("Warning"); !slices.Equal(slices.Sorted(slices.Values(list)), want) {
		t.Errorf("warnings %q, want %q", list, want)
	}
	got = w.must("GET", "/api/v1/namespaces/ns/endpoints", "", 200)
	if list := got.header.Values("Warning"); len(list) != 1 || !strings.Contains(list[0], "v1 Endpoints is deprecated") {
		t.Errorf("warnings %q", list)
	}
}

func TestHeaders(t *testing.T) {
	w := newWorld(t)
	got := w.must("GET", "/api/v1/nodes", "", 200)
	if got.header.Get("Audit-Id") == "" || got.header.Get("Cache-Control") != "no-cache, private" {
		t.Errorf("headers %v", got.header)
	}
	for _, id := range []string{"mine", strings.Repeat("x", 300)} { // upstream cuts none
		if got := w.must("GET", "/api/v1/nodes", "", 200, "Audit-ID", id); got.header.Get("Audit-Id") != id {
			t.Errorf("audit id %q", got.header.Get("Audit-Id"))
		}
	}
}

func TestGzip(t *testing.T) {
	w := newWorld(t)
	big := strings.Repeat("x", 200000)
	w.configMap("big", big)
	w.configMap("small", "x")
	got := w.must("GET", "/api/v1/namespaces/ns/configmaps/big", "", 200, "Accept-Encoding", "gzip")
	if got.header.Get("Content-Encoding") != "gzip" {
		t.Fatal("a large answer is not compressed")
	}
	z, err := gzip.NewReader(bytes.NewReader(got.body))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil || !bytes.Contains(plain, []byte(big)) {
		t.Errorf("decompressed to %d bytes, error %v", len(plain), err)
	}
	for name, accept := range map[string]string{"small": "gzip", "big": "deflate, gzip;q=0"} {
		t.Run(name, func(t *testing.T) {
			if got := w.must("GET", "/api/v1/namespaces/ns/configmaps/"+name, "", 200, "Accept-Encoding",
				accept); got.header.Get("Content-Encoding") != "" {
				t.Errorf("%s is compressed for %s", name, accept)
			}
		})
	}
}

func TestNoGzipForNeighbours(t *testing.T) {
	w := newWorld(t)
	for i := range 3 {
		w.configMap(fmt.Sprint("big", i), strings.Repeat("x", 500000))
	}
	for remote, want := range map[string]string{"127.0.0.1:1": "", "[::1]:1": "", "10.0.0.1:1": "", "10.0.0.2:1": "gzip", "what": "gzip"} {
		t.Run(remote, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/api/v1/namespaces/ns/configmaps", nil)
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 6443}))
			r.RemoteAddr = remote
			r.Header.Set("Accept-Encoding", "gzip")
			if got := w.send(r, ""); got.header.Get("Content-Encoding") != want || got.code != 200 {
				t.Errorf("from %s: code %d, encoding %q, want %q", remote, got.code, got.header.Get("Content-Encoding"), want)
			}
		})
	}
}

func TestScale(t *testing.T) {
	w := newWorld(t)
	w.must("POST", "/apis/apps/v1/namespaces/ns/deployments", `{"metadata":{"name":"d"},"spec":{"replicas":2}}`, 201)
	const path = "/apis/apps/v1/namespaces/ns/deployments/d/scale"
	got := w.must("GET", path, "", 200).tree(t)
	if got["kind"] != "Scale" || got["apiVersion"] != "autoscaling/v1" || at(got, "spec", "replicas") != 2.0 {
		t.Fatalf("scale %v", got)
	}
	w.must("PATCH", path, `{"spec":{"replicas":5}}`, 200, "Content-Type", "application/merge-patch+json")
	w.must("PUT", path, `{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"d","namespace":"ns"},"spec":{"replicas":7}}`, 200)
	if got := w.must("GET", "/apis/apps/v1/namespaces/ns/deployments/d", "", 200).tree(t); at(got, "spec", "replicas") != 7.0 {
		t.Errorf("replicas %v", at(got, "spec", "replicas"))
	}
	raw := w.must("GET", path, "", 200, "Accept", codec.Protobuf)
	if gvk, _, err := codec.OpenEnvelope(raw.body); err != nil || gvk.Kind != "Scale" || gvk.Group != "autoscaling" {
		t.Errorf("protobuf of %v, error %v", gvk, err)
	}
}

func TestBindingAnswersStatus(t *testing.T) {
	w := newWorld(t)
	w.must("POST", "/api/v1/namespaces/ns/pods", `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`, 201)
	st := w.must("POST", "/api/v1/namespaces/ns/pods/p/binding",
		`{"apiVersion":"v1","kind":"Binding","metadata":{"name":"p"},"target":{"kind":"Node","name":"n1"}}`, 201).status(t)
	if st.Status != metav1.StatusSuccess || st.Code != 201 {
		t.Errorf("status %+v", st)
	}
}

func TestProtobufBody(t *testing.T) {
	w := newWorld(t)
	cm := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Data: map[string]string{"a": "b"}}
	body, err := codec.MarshalProto(cm)
	if err != nil {
		t.Fatal(err)
	}
	got := w.must("POST", "/api/v1/namespaces/ns/configmaps", string(body), 201, "Content-Type", codec.Protobuf, "Accept", codec.Protobuf)
	var back corev1.ConfigMap
	if err := codec.UnmarshalProto(got.body, &back); err != nil || back.Data["a"] != "b" || back.UID == "" {
		t.Errorf("back %v, error %v", back, err)
	}
}

func TestVersions(t *testing.T) {
	w := newWorld(t)
	w.must("POST", "/apis/autoscaling/v1/namespaces/ns/horizontalpodautoscalers",
		`{"metadata":{"name":"h"},"spec":{"maxReplicas":3,"scaleTargetRef":{"kind":"D","name":"d"}}}`, 201)
	for _, v := range []string{"v1", "v2"} {
		got := w.must("GET", "/apis/autoscaling/"+v+"/namespaces/ns/horizontalpodautoscalers/h", "", 200).tree(t)
		if got["apiVersion"] != "autoscaling/"+v || at(got, "spec", "maxReplicas") != 3.0 {
			t.Errorf("%s: %v", v, got)
		}
	}
}
