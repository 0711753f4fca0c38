package mentions_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/mentions"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/states"
)

// meshed is what there is around a VirtualService of Istio's, %s its spec.
const meshed = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: d, namespace: apps}
spec: %s
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: gw, namespace: edge}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: web, namespace: edge}
spec: {host: web.apps.svc.cluster.local, subsets: [{name: v1}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: web, namespace: other}
spec: {host: web, subsets: [{name: v9}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: apps}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: other}
spec: {ports: [{port: 80}]}
`

// TestMesh: what Istio's routes name is found by the names that DNS has for it, and in the rules of all namespaces.
func TestMesh(t *testing.T) {
	for _, tt := range []struct{ name, spec, want string }{
		{"a gateway", `{gateways: [edge/gw, mesh]}`, ""},
		{"one that is not there", `{gateways: [gw]}`, "names gateway/gw in spec.gateways, which does not exist"},
		{"a host", `{http: [{route: [{destination: {host: web}}]}]}`, ""},
		{"one that is not there", `{http: [{route: [{destination: {host: wbe}}]}]}`,
			"names service/wbe in spec.http.route.destination.host, which does not exist"},
		{"one of another namespace", `{tcp: [{route: [{destination: {host: wbe.other.svc.cluster.local}}]}]}`,
			"names service/wbe of namespace other in spec.tcp.route.destination.host, which does not exist"},
		{"one that may be anybody's", `{http: [{route: [{destination: {host: example.com}}]}]}`, ""},
		{"a mirror", `{http: [{mirror: {host: wbe}}]}`, "names service/wbe in spec.http.mirror.host, which does not exist"},
		{"a port", `{http: [{route: [{destination: {host: web, port: {number: 8080}}}]}]}`,
			"names port 8080 of service/web in spec.http.route.destination.host, which has 80"},
		{"a subset", `{http: [{route: [{destination: {host: web, subset: v1}}]}]}`, ""},
		{"one that no rule of the host has", `{http: [{route: [{destination: {host: web, subset: v9}}]}]}`,
			"names the subset v9 of service/web in spec.http.route.destination.host, which has v1"},
	} {
		t.Run(tt.name+" "+tt.spec, func(t *testing.T) {
			set, read, err := states.World(strings.Replace(meshed, "%s", tt.spec, 1))
			if err != nil {
				t.Fatal(err)
			}
			k, ok := set.Kind(schema.GroupVersionKind{Group: "networking.istio.io", Version: "v1", Kind: "VirtualService"})
			if !ok {
				t.Fatal("no such kind")
			}
			obj := read.Lookup(k, "apps", "d")
			tree, _ := words.Tree(obj)
			var got []string
			s := mentions.Search{World: &converge.World{Read: read, Kinds: set, Now: states.Noon}, Kind: k, Obj: obj}
			for _, m := range s.Mentions(tree) {
				if says := m.Says("apps"); says != "" {
					got = append(got, says)
				}
			}
			if text := strings.Join(got, "; "); text != tt.want {
				t.Errorf("%q, want %q", text, tt.want)
			}
		})
	}
}
