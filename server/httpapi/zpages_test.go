package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server/httpapi"
	"github.com/kloop-dev/kloop/server/httpapi/health"
)

func TestZPages(t *testing.T) {
	w := newWorld(t, func(c *httpapi.Config) { c.Flags = map[string]string{"log": "warn", "data-dir": "/d"} })
	for _, test := range []struct {
		path, accept string
		code         int
		want         string
	}{
		{"/statusz", "", 200, "\napiserver statusz\nWarning: "},
		{"/statusz", "text/plain", 200, "Emulation version: 1.37\n"},
		{"/flagz", "*/*", 200, "data-dir=/d\nlog=warn\n"},
		{"/statusz", "application/json;v=v1beta1;g=config.k8s.io;as=Statusz", 200,
			`{"kind":"Statusz","apiVersion":"config.k8s.io/v1beta1","metadata":{"name":"apiserver"},"startTime":"`},
		{"/flagz", "application/json;v=v1alpha1;g=config.k8s.io;as=Flagz", 200,
			`{"kind":"Flagz","apiVersion":"config.k8s.io/v1alpha1","metadata":{"name":"apiserver"},"flags":{"data-dir":"/d","log":"warn"}}`},
		{"/flagz", "application/yaml;v=v1beta1;g=config.k8s.io;as=Flagz", 200, "kind: Flagz\n"},
		{"/flagz", "application/json;v=v1beta1;g=config.k8s.io;as=Statusz", 406, ""},
		{"/statusz", "application/json", 406, ""},
		{"/statusz", "application/json, text/plain", 200, "apiserver statusz"},
	} {
		t.Run(test.path, func(t *testing.T) {
			res := w.do("GET", test.path, "", "Accept", test.accept)
			if res.code != test.code || !strings.Contains(string(res.body), test.want) {
				t.Errorf("%s as %q: %d %s", test.path, test.accept, res.code, res.body)
			}
		})
	}
	if body := string(w.must("GET", "/metrics", "", 200).body); !strings.Contains(body,
		`kubernetes_feature_enabled{name="WatchList",stage="BETA"} 1`) {
		t.Error("metrics tell nothing of gates")
	}
}

// TestZPagesOff asks for the pages where their gates are off, and for the version of a 1.36.
func TestZPagesOff(t *testing.T) {
	on, err := features.New(36, map[string]bool{"ComponentStatusz": false, "ComponentFlagz": false})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(c *httpapi.Config) { c.Kinds = resource.For(on, nil, c.Kinds.All()...) })
	for _, path := range []string{"/statusz", "/flagz"} {
		w.must("GET", path, "", 404)
	}
	var v map[string]string
	if err := json.Unmarshal(w.must("GET", "/version", "", 200).body, &v); err != nil {
		t.Fatal(err)
	}
	w.must("GET", "/version", "", 406, "Accept", "application/yaml")
	if v["minor"] != "37" || v["emulationMinor"] != "36" || v["minCompatibilityMinor"] != "35" {
		t.Error(v)
	}
}

// TestTraffic has a check that keeps traffic away and nothing else.
func TestTraffic(t *testing.T) {
	w := newWorld(t, func(c *httpapi.Config) {
		c.Traffic = []health.Check{{Name: "informer-sync", Run: func(context.Context) error { return errors.New("not yet") }}}
	})
	for path, code := range map[string]int{"/livez": 200, "/healthz": 200, "/readyz": 500, "/readyz?exclude=informer-sync": 200,
		"/readyz/informer-sync": 500, "/livez/informer-sync": 404} {
		w.must("GET", path, "", code)
	}
}
