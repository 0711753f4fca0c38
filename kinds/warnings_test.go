package kinds_test

import (
	"testing"

	apps "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kloop-dev/kloop/kinds"
)

// A patch writes raw JSON anew; that is no change.
func TestRawJSONStaysTheSame(t *testing.T) {
	r := func(data string) *apps.ControllerRevision {
		return &apps.ControllerRevision{Data: runtime.RawExtension{Raw: []byte(data)}}
	}
	old := r(`{"b": 1, "a": [2]}`)
	if errs := kinds.ControllerRevisions.Check("", r(`{"a":[2],"b":1}`), old); len(errs) > 0 {
		t.Error(errs)
	}
	if errs := kinds.ControllerRevisions.Check("", r(`{"a":[3],"b":1}`), old); len(errs) != 1 {
		t.Errorf("a change was accepted: %v", errs)
	}
}

// What deserves how many warnings.
func TestWarnings(t *testing.T) {
	set := kinds.NewSet()
	pods := map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}}}}
	for _, c := range []struct {
		name string
		of   map[string]any
		want int
	}{
		{"network policy", map[string]any{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "spec": map[string]any{
			"podSelector": map[string]any{}, "egress": []any{map[string]any{"to": []any{map[string]any{"ipBlock": map[string]any{
				"cidr": "10.0.0.0/8", "except": []any{"10.01.0.0/16"}}}}}}}}, 1},
		{"endpoint slice", map[string]any{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
			"endpoints": []any{map[string]any{"addresses": []any{"10.0.0.01", "10.0.0.2"}}}}, 1},
		{"names of hosts", map[string]any{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "FQDN"}, 1},
		{"old class", map[string]any{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
			"metadata": map[string]any{"annotations": map[string]any{"kubernetes.io/ingress.class": "a"}}}, 1},
		{"long name", map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "a.b"},
			"spec": map[string]any{"template": pods}}, 1},
		{"long name of a job", map[string]any{"apiVersion": "batch/v1", "kind": "Job", "metadata": map[string]any{"name": "a.b"},
			"spec": map[string]any{"template": pods}}, 1},
		{"daemon set", map[string]any{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": map[string]any{"name": "a.b"},
			"spec": map[string]any{"template": pods}}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			obj := decode(t, set, c.of)
			k, _ := set.Kind(gvkOf(c.of))
			if got := k.Warnings(obj, nil); len(got) != c.want {
				t.Errorf("got %q, want %d", got, c.want)
			}
		})
	}
}
