package httpapi_test

import (
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/dra"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/server/httpapi"
	"github.com/kloop-dev/kloop/server/workload"
	"github.com/kloop-dev/kloop/view"
)

// TestTaintsOfDevices: their kind is new in v1, where a change names the revision and the answer to a deletion is a Status.
func TestTaintsOfDevices(t *testing.T) {
	set := resource.NewSet(core.Namespaces, dra.DeviceTaintRules)
	c := testcluster.Start(t, func(c *testcluster.Config) {
		c.Kinds, c.View, c.Authorize = set, view.NewWith(set, view.Config{}), everyone{}
	})
	w := &world{t: t, ops: c.Server, view: c.View, kinds: set,
		handler: httpapi.New(httpapi.Config{Evictions: workload.Eviction, Ops: c.Server, Kinds: set, Authn: everyone{}, Authz: everyone{}})}
	const path, body = "/apis/resource.k8s.io/v1/devicetaintrules",
		`{"metadata":{"name":"r"},"spec":{"taint":{"key":"a.example/b","effect":"NoSchedule"}}}`
	w.must("POST", path, body, 201)
	w.must("PUT", path+"/r", body, 422)
	if got := w.must("DELETE", path+"/r", "", 200).tree(t)["kind"]; got != "Status" {
		t.Errorf("deleted: %v", got)
	}
}

// TestProxyToNothing: a service that has no endpoints is not there for now, nor is one that is not there at all, unless its
// port is to be found by a number.
func TestProxyToNothing(t *testing.T) {
	w := newWorld(t)
	w.must("POST", "/api/v1/namespaces/ns/services", `{"metadata":{"name":"s"},"spec":{"clusterIP":"None","ports":[{"port":80}]}}`, 201)
	const none, lost = `no endpoints available for service "%"`, `services "%" not found`
	for _, x := range []struct {
		service, port, message string
		code                   int
	}{
		{"s", "", none, 503}, {"m", "", none, 503}, {"m", ":http", none, 503}, {"m", ":80", lost, 404},
	} {
		t.Run(x.service+x.port, func(t *testing.T) {
			st := w.must("GET", "/api/v1/namespaces/ns/services/"+x.service+x.port+"/proxy/", "", x.code).status(t)
			if want := strings.Replace(x.message, "%", x.service, 1); st.Message != want {
				t.Errorf("status %+v, want %s", st, want)
			}
		})
	}
}
