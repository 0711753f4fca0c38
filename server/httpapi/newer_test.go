package httpapi_test

import (
	"testing"

	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/dra"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server/httpapi"
	"github.com/kloop-dev/kloop/view"
)

// TestTaintsOfDevices: their kind is new in v1, where a change names the revision and the answer to a deletion is a Status.
func TestTaintsOfDevices(t *testing.T) {
	set := resource.NewSet(core.Namespaces, dra.DeviceTaintRules)
	c := testcluster.Start(t, func(c *testcluster.Config) {
		c.Kinds, c.View, c.Authorize = set, view.NewWith(set, view.Config{}), everyone{}
	})
	w := &world{t: t, ops: c.Server, view: c.View, kinds: set,
		handler: httpapi.New(httpapi.Config{Ops: c.Server, Kinds: set, Authn: everyone{}, Authz: everyone{}})}
	const path, body = "/apis/resource.k8s.io/v1/devicetaintrules",
		`{"metadata":{"name":"r"},"spec":{"taint":{"key":"a.example/b","effect":"NoSchedule"}}}`
	w.must("POST", path, body, 201)
	w.must("PUT", path+"/r", body, 422)
	if got := w.must("DELETE", path+"/r", "", 200).tree(t)["kind"]; got != "Status" {
		t.Errorf("deleted: %v", got)
	}
}

// TestProxyToNothing: a service that has no endpoints is not there for now.
func TestProxyToNothing(t *testing.T) {
	w := newWorld(t)
	w.must("POST", "/api/v1/namespaces/ns/services", `{"metadata":{"name":"s"},"spec":{"clusterIP":"None","ports":[{"port":80}]}}`, 201)
	st := w.must("GET", "/api/v1/namespaces/ns/services/s/proxy/", "", 503).status(t)
	if st.Message != `no endpoints available for service "s"` {
		t.Errorf("status %+v", st)
	}
}
