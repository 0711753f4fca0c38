package why_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/cli"
	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/kit/whole"
)

// shop is a namespace in which much is wrong, and who may see it and nothing else.
const shop = `
apiVersion: v1
kind: Pod
metadata: {name: lost}
spec: {volumes: [{name: v, persistentVolumeClaim: {claimName: data}}], containers: [{name: app, image: x}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: rest}
spec: {replicas: 0, selector: {matchLabels: {app: rest}}, template: {metadata: {labels: {app: rest}},
  spec: {containers: [{name: app, image: x}]}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: routes.any.example.com}
spec:
  group: any.example.com
  scope: Namespaced
  names: {kind: Route, plural: routes, singular: route}
  versions:
  - {name: v1, served: true, storage: true, subresources: {status: {}},
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: any.example.com/v1
kind: Route
metadata: {name: web}
status: {parents: [{parentRef: {name: gw}, conditions: [{type: Accepted, status: "False", message: no listener has its host}]}]}
---
apiVersion: v1
kind: Secret
metadata: {name: marked}
stringData: {token: marked-value}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: viewer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: viewer}]
`

// TestAnyCluster asks a server that does not explain itself, as any Kubernetes does not: by a kubeconfig alone, custom kinds included,
// with all rights and with few; and holds exit codes and forms of the answer to what is documented.
func TestAnyCluster(t *testing.T) {
	c, err := cluster.Start(context.Background(), cluster.Config{Kit: whole.Kit(),
		SimNodes: 2, NoConvergence: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop() })
	cfg, err := c.Rest()
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS = -1
	w := &world{t, dynamic.NewForConfigOrDie(cfg),
		restmapper.NewDeferredDiscoveryRESTMapper(cached{discovery.NewDiscoveryClientForConfigOrDie(cfg)}), t.Context(), cfg, ""}
	w.make(situation{Name: "shop", Given: shop})
	config := func(user string, groups ...string) string {
		data, err := c.Kubeconfig(user, groups...)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "kubeconfig")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	admin, viewer, nobody := config("somebody", "system:masters"), config("viewer"), config("nobody")
	ask := func(path string, args ...string) (out, errs string, code int) {
		var o, e bytes.Buffer
		code = cli.Run(t.Context(), strings.NewReader(""), &o, &e, slices.Concat([]string{"kloop", "why", "--kubeconfig", path}, args))
		return o.String(), e.String(), code
	}
	for _, tt := range []struct {
		path string
		args []string
		code int
		want []string
	}{
		{admin, nil, 3, []string{"uses the claim data, which does not exist",
			"route/web is not accepted by its parent gw: no listener has its host"}},
		{viewer, []string{"-n", "shop"}, 3, []string{"uses the claim data, which does not exist", "not seen: apiservices",
			"you may not list them"}},
		{admin, []string{"--as", "viewer", "-n", "shop", "pod/lost"}, 3, []string{"uses the claim data, which does not exist"}},
		{admin, []string{"-n", "shop", "lost"}, 3, []string{"pod/lost", "uses the claim data"}},
		{admin, []string{"-n", "shop", "rest"}, 0, []string{"deployment/rest is what it should be: it is scaled to 0",
			"kubectl scale deployment rest -n shop --replicas=1"}},
		{admin, []string{"-n", "shop", "pod", "gone"}, 1, []string{`there is no pod "gone" in namespace shop`}},
		{viewer, []string{"-n", "kube-system", "pod/any"}, 1, []string{`cannot get resource "pods"`}},
		{nobody, []string{"-n", "shop"}, 1, []string{`User "nobody" cannot list resource "pods"`}},
		{admin, []string{"-o", "xml"}, 2, []string{"neither json nor yaml"}},
		{admin, []string{"-n", "shop", "--wait", "--timeout", "1s", "lost"}, 3, []string{"uses the claim data"}},
		{admin, []string{"-n", "shop", "--wait", "rest"}, 0, nil},
	} {
		t.Run(tt.path, func(t *testing.T) {
			var all string
			w.until(strings.Join(tt.args, " "), func() error { // what was just made is nothing to speak of yet
				out, errs, code := ask(tt.path, tt.args...)
				if all = out + errs; code != tt.code {
					return &unexpected{code, all}
				}
				for _, part := range tt.want {
					if !strings.Contains(all, part) {
						return &unexpected{code, all}
					}
				}
				return nil
			})
			if strings.Contains(all, "marked-value") || strings.Contains(all, "no controller watches") {
				t.Errorf("%q says what it may not: %s", tt.args, all)
			}
		})
	}
	for _, form := range []string{"json", "yaml"} {
		out, errs, code := ask(admin, "-n", "shop", "-o", form)
		var got struct {
			Kind  string
			Items []convergence.Gap
		}
		if form == "yaml" {
			data, err := yaml.YAMLToJSON([]byte(out))
			if err != nil {
				t.Fatal(err)
			}
			out = string(data)
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != 3 || got.Kind != "GapList" || len(got.Items) < 2 ||
			got.Items[0].Kind != "Gap" {
			t.Errorf("%s: code %d, %v: %s%s", form, code, err, out, errs)
		}
	}
}

// unexpected is an answer that is not the expected one.
type unexpected struct {
	code int
	text string
}

func (u *unexpected) Error() string { return "code " + string(rune('0'+u.code)) + ": " + u.text }
