package httpapi_test

import (
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/kinds/apiextensions"
	"github.com/kloop-dev/kloop/kinds/batch"
	"github.com/kloop-dev/kloop/kinds/policy"
	"github.com/kloop-dev/kloop/server/httpapi"
)

// A body that claims to be of another type is refused in words of upstream's scheme (1.36.3).
func TestClaimedTypes(t *testing.T) {
	w := newWorld(t, func(c *httpapi.Config) {
		if err := c.Kinds.Put(batch.CronJobs, apiextensions.CustomResourceDefinitions, policy.PodDisruptionBudgets); err != nil {
			t.Fatal(err)
		}
	})
	const unknown = ` in scheme "pkg/runtime/scheme.go:111"`
	const maps, defs = "/api/v1/namespaces/ns/configmaps", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	const eviction, token = "/api/v1/namespaces/ns/pods/p/eviction", "/api/v1/namespaces/ns/serviceaccounts/default/token"
	for _, x := range []struct{ path, version, kind, want string }{
		{maps, "v2", "ConfigMap", `no kind "ConfigMap" is registered for version "v2"` + unknown},
		{maps, "apps/v1", "Deployment", "converting (v1.Deployment) to (core.ConfigMap): unknown conversion"},
		{maps, "v1", "ConfigMapList", "converting (v1.ConfigMapList) to (core.ConfigMap): unknown conversion"},
		{maps, "v1", "List", "converting (v1.List) to (core.ConfigMap): unknown conversion"},
		{maps, "v1", "DeleteOptions", "converting (v1.DeleteOptions) to (core.ConfigMap): unknown conversion"},
		{maps, "meta.k8s.io/v1", "DeleteOptions", `no kind "DeleteOptions" is registered for version "meta.k8s.io/v1"` + unknown},
		{maps, "batch/v1beta1", "CronJob", "converting (v1beta1.CronJob) to (core.ConfigMap): unknown conversion"},
		{maps, "extensions/v1beta1", "ConfigMap", `no kind "ConfigMap" is registered for version "extensions/v1beta1"` + unknown},
		{maps, "v1", "PodTemplateSpec", `no kind "PodTemplateSpec" is registered for version "v1"` + unknown},
		{maps, "v1", "Scale", `no kind "Scale" is registered for version "v1"` + unknown},
		{maps, "apiextensions.k8s.io/v1", "CustomResourceDefinition",
			`no kind "CustomResourceDefinition" is registered for version "apiextensions.k8s.io/v1"` + unknown},
		{defs, "v1", "ConfigMap", `no kind "ConfigMap" is registered for version "v1"` + unknown},
		{defs, "apiextensions.k8s.io/v1beta1", "CustomResourceDefinition",
			"the API version in the data (apiextensions.k8s.io/v1beta1) does not match the expected API version (apiextensions.k8s.io/v1)"},
		{eviction, "policy/v2", "Eviction", `no kind "Eviction" is registered for version "policy/v2"` + unknown},
		{eviction, "policy/v1beta1", "PodDisruptionBudget", "converting (v1beta1.PodDisruptionBudget) to (policy.Eviction): unknown conversion"},
		{eviction, "autoscaling/v1", "Scale", "converting (v1.Scale) to (policy.Eviction): unknown conversion"},
		{token, "authentication.k8s.io/v1beta1", "TokenRequest",
			`no kind "TokenRequest" is registered for version "authentication.k8s.io/v1beta1"` + unknown},
	} {
		t.Run(x.path+" "+x.version+" "+x.kind, func(t *testing.T) {
			st := w.must("POST", x.path, `{"apiVersion":"`+x.version+`","kind":"`+x.kind+`","metadata":{"name":"p"}}`, 400).status(t)
			if !strings.HasSuffix(st.Message, x.want) {
				t.Errorf("%s", st.Message)
			}
		})
	}
	for body, want := range map[string]string{
		`{"kind":"Status","apiVersion":"v1"}`: "converting (v1.Status) to (v1.DeleteOptions): unknown conversion",
		`{"kind":"Pod"}`:                      `no kind "Pod" is registered for version "meta.k8s.io/v1"` + unknown,
		`{"gracePeriodSeconds":"x"}`: "json: cannot unmarshal string into " +
			"Go struct field DeleteOptions.gracePeriodSeconds of type int64",
		`{"kind":5}`: "couldn't get version/kind; json parse error: " +
			"json: cannot unmarshal number into Go struct field .kind of type string",
	} {
		if st := w.must("DELETE", maps+"/a", body, 400).status(t); st.Message != want {
			t.Errorf("%s: %s", body, st.Message)
		}
	}
	w.must("DELETE", maps+"/a", `{"kind":"DeleteOptions","apiVersion":"zz.example/v7"}`, 404)
	// The first version of an eviction is read as its second.
	beta := `{"apiVersion":"policy/v1beta1","kind":"Eviction","metadata":{"name":"p"}}`
	w.must("POST", eviction, beta, 404)
	if st := w.must("POST", maps, `{"metadata":"x"}`, 400).status(t); !strings.HasPrefix(st.Message, `ConfigMap in version "v1" cannot`) {
		t.Errorf("%s", st.Message)
	}
}

// What asks for lists of metadata gets none from a watch, and hears nothing of it; a person's /api is indented.
func TestOddShapes(t *testing.T) {
	w := newWorld(t)
	const maps, partial = "/api/v1/namespaces/ns/configmaps", "application/json;g=meta.k8s.io;v=v1;as=PartialObjectMetadata"
	w.must("POST", maps, `{"metadata":{"name":"a"}}`, 201)
	if got := w.must("GET", maps+"?watch=1&timeoutSeconds=1", "", 200, "Accept", partial+"List"); len(got.body) > 0 {
		t.Errorf("the watch told %s", got.body)
	}
	for path, want := range map[string]string{maps: "a list (*core.ConfigMapList)",
		"/apis/apps/v1/deployments":     "a list (*apps.DeploymentList)",
		"/apis/events.k8s.io/v1/events": "a list (*core.EventList)"} {
		if st := w.must("GET", path, "", 406, "Accept", partial).status(t); !strings.HasSuffix(st.Message, want) {
			t.Errorf("%s: %s", path, st.Message)
		}
	}
	const from = "?watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
	if got := w.must("GET", "/apis/apps/v1/deployments"+from, "", 200); !strings.Contains(string(got.body), `"spec":{"replicas":0,`) {
		t.Errorf("the bookmark is %s", got.body)
	}
	for path, want := range map[string]string{maps: `"zz" is not a known field selector: only "metadata.name", "metadata.namespace"`,
		"/api/v1/pods": "field label not supported: zz"} {
		if st := w.must("GET", path+"?fieldSelector=zz=y", "", 400).status(t); st.Message != want {
			t.Errorf("%s: %s", path, st.Message)
		}
	}
	for _, path := range []string{"/api", "/apis"} {
		if got := w.must("GET", path, "", 200, "User-Agent", "curl/8"); !strings.HasPrefix(string(got.body), "{\n  ") {
			t.Errorf("%s: %.40s", path, got.body)
		}
	}
	for _, path := range []string{"/apis//", "/apis//x", "/apis///"} {
		if got := w.must("GET", path, "", 404); string(got.body) != "404 page not found\n" {
			t.Errorf("%s: %s", path, got.body)
		}
	}
}
