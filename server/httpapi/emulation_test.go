package httpapi_test

import (
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server"
	"github.com/kloop-dev/kloop/server/httpapi"
)

// TestLaterFields sends a field of 1.37 to a 1.36, in every kind of write: there it is an unknown one.
func TestLaterFields(t *testing.T) {
	on, err := features.New(36, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(c *httpapi.Config) {
		c.Kinds = resource.For(on, nil, c.Kinds.All()...)
		c.Ops.(*server.Server).Kinds = c.Kinds
	})
	const pods = "/api/v1/namespaces/ns/pods"
	body := func(name string) string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + name +
			`"},"spec":{"containers":[{"name":"c","image":"i"}],"volumes":[{"name":"v","emptyDir":{"mode":448}}]}}`
	}
	const unknown = `unknown field \"spec.volumes[0].emptyDir.mode\"`
	if got := string(w.must("POST", pods+"?fieldValidation=Strict", body("a"), 400).body); !strings.Contains(got, unknown) {
		t.Errorf("strict: %s", got)
	}
	made := w.must("POST", pods+"?fieldValidation=Warn", body("a"), 201)
	if warned := made.header.Get("Warning"); !strings.Contains(warned, "spec.volumes[0].emptyDir.mode") ||
		strings.Contains(string(made.body), `"mode"`) {
		t.Errorf("warned %q: %s", warned, made.body)
	}
	patch := `{"metadata":{"labels":{"a":"b"}},"spec":{"volumes":[{"name":"v","emptyDir":{"mode":448}}]}}`
	if got := string(w.must("PATCH", pods+"/a?fieldValidation=Strict", patch, 422, "Content-Type",
		"application/strategic-merge-patch+json").body); !strings.Contains(got, "emptyDir.mode") {
		t.Errorf("patch: %s", got)
	}
	got := string(w.must("PATCH", pods+"/b?fieldManager=m", body("b"), 500, "Content-Type", "application/apply-patch+yaml").body)
	if !strings.Contains(got,
		"failed to create typed patch object (ns/b; /v1, Kind=Pod): .spec.volumes[0].emptyDir.mode: field not declared in schema") {
		t.Errorf("apply: %s", got)
	}
}
