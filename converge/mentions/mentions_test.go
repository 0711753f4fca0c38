package mentions_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/mentions"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/states"
)

// around is what there is in the namespace of the object, and %s its spec.
const around = `
apiVersion: db.example.com/v1
kind: Database
metadata: {name: d, namespace: apps}
spec: %s
---
apiVersion: db.example.com/v1
kind: Cluster
metadata: {name: c, namespace: apps}
---
apiVersion: v1
kind: Secret
metadata: {name: s, namespace: apps}
data: {user: eA==}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: apps}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: far, namespace: other}
`

// TestMentions: what a spec names is found by the names of its fields, and what of it is missing.
func TestMentions(t *testing.T) {
	for _, tt := range []struct{ name, spec, want string }{
		{"nothing", `{size: 3}`, ""},
		{"a secret that is there", `{passwordSecretRef: {name: s}}`, "secret/s"},
		{"one that is not", `{passwordSecretRef: {name: x}}`,
			"names secret/x in spec.passwordSecretRef, which does not exist"},
		{"one that may be missing", `{passwordSecretRef: {name: x, optional: true}}`, ""},
		{"one that is written", `{outputSecretRef: {name: x}}`, ""},
		{"a key", `{passwordSecretRef: {name: s, key: pasword}}`,
			"names the key pasword of secret/s in spec.passwordSecretRef, which has no such"},
		{"a port", `{backendRef: {name: web, port: 8080}}`, "names port 8080 of service/web in spec.backendRef, which has 80"},
		{"another namespace", `{configMapRef: {name: far, namespace: other}}`, "configmap/far"},
		{"what lies in another namespace", `{configMapRef: {name: far}}`, "names configmap/far in spec.configMapRef, which does not exist"},
		{"the project's own kind", `{cluster: {name: x}}`, "names cluster/x in spec.cluster, which does not exist"},
		{"by kind", `{sourceRef: {kind: Cluster, name: c}}`, "cluster/c"},
		{"in a list", `{parts: [{secretRef: {name: s}}, {secretRef: {name: x}}]}`,
			"secret/s; names secret/x in spec.parts.secretRef, which does not exist"},
		{"a class by name", `{priorityClassName: fast}`, "names priorityclass/fast in spec.priorityClassName, which does not exist"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			set, read, err := states.World(fmt.Sprintf(around, tt.spec))
			if err != nil {
				t.Fatal(err)
			}
			k, _ := set.GR(schema.GroupResource{Group: "db.example.com", Resource: "databases"})
			obj := read.Lookup(k, "apps", "d")
			tree, _ := words.Tree(obj)
			s := &mentions.Search{World: &converge.World{Read: read, Kinds: set, Now: states.Noon}, Kind: k, Obj: obj}
			var got []string
			for _, m := range s.Mentions(tree) {
				says := m.Says("apps")
				if says == "" {
					says = converge.Named(m.Kind, m.NS, m.Name).Short()
				}
				got = append(got, says)
			}
			if all := strings.Join(got, "; "); all != tt.want {
				t.Errorf("%s\nwant %s", all, tt.want)
			}
		})
	}
}
