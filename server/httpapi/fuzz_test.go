package httpapi_test

import (
	"net/http/httptest"
	"net/url"
	"testing"
)

// No request may make the server panic, or answer with a code of its own failure.
func FuzzRequest(f *testing.F) {
	for _, seed := range [][5]string{
		{"GET", "/api/v1/namespaces/ns/configmaps/a", "limit=1", "application/json;as=Table;v=v1;g=meta.k8s.io", ""},
		{"POST", "/api/v1/namespaces/ns/configmaps", "fieldValidation=Strict", "*/*;q=0.1,application/yaml", `{"metadata":{"name":"x"}}`},
		{"DELETE", "/api/v1/namespaces/ns/pods", "labelSelector=a%3Db", "application/vnd.kubernetes.protobuf", `{"propagationPolicy":"Orphan"}`},
		{"PATCH", "/apis/apps/v1/namespaces/ns/deployments/d/scale", "force=true", "", `[{"op":"add"}]`},
		{"GET", "//apis//watch/namespaces/", "watch=1&timeoutSeconds=1", "a;b;c=,;", ""},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3], seed[4])
	}
	w := newWorld(f)
	f.Fuzz(func(t *testing.T, method, path, query, accept, body string) {
		if !token(method) || len(path) == 0 || path[0] != '/' || len(query) > 200 {
			return
		}
		q, err := url.ParseQuery(query)
		if err != nil || q.Has("watch") {
			return
		}
		r := httptest.NewRequest("GET", "/", nil)
		r.Method, r.URL = method, &url.URL{Path: path, RawQuery: query}
		r.Header.Set("Accept", accept)
		got := w.send(r, body)
		if got.code >= 500 && got.code != 503 && got.code != 504 && got.code != 501 {
			t.Errorf("%s %s?%s: %d %s", method, path, query, got.code, got.body)
		}
	})
}

func token(s string) bool {
	for _, c := range s {
		if c < 'A' || c > 'Z' {
			return false
		}
	}
	return s != ""
}
