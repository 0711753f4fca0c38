package why_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/kloop-dev/kloop/cli"
	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/kit/whole"
	"github.com/kloop-dev/kloop/survey"
)

// installed is packaging/lookout.yaml, with the server at an address on this machine in place of its pods.
func installed(t *testing.T, at string) string {
	t.Helper()
	text, err := os.ReadFile("../../packaging/lookout.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for doc := range strings.SplitSeq(string(text), "---\n") {
		switch {
		case strings.Contains(doc, "kind: Deployment"), strings.Contains(doc, "kind: Namespace\n"):
			continue
		case strings.Contains(doc, "kind: Service\n"):
			doc = doc[:strings.Index(doc, "spec:")] + "spec: {type: ExternalName, externalName: localhost}\n"
		case strings.Contains(doc, "kind: APIService"):
			doc = strings.Replace(doc, "port: 443", "port: "+at, 1)
		}
		kept = append(kept, doc)
	}
	return strings.Join(kept, "---\n")
}

// TestLookout installs a lookout in a cluster that does not explain itself: with the rights of its service account alone it explains
// that cluster to all its users, by the cluster's own API, to each what they may get; and counts for Prometheus.
func TestLookout(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	run := func(cfg cluster.Config) *cluster.Cluster {
		cfg.Kit, cfg.Log = whole.Kit(), quiet
		c, err := cluster.Start(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Stop() })
		return c
	}
	host := run(cluster.Config{SimNodes: 1, NoConvergence: true})
	cfg, err := host.Rest()
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS = -1
	kinds := restmapper.NewDeferredDiscoveryRESTMapper(cached{discovery.NewDiscoveryClientForConfigOrDie(cfg)})
	w := &world{t, dynamic.NewForConfigOrDie(cfg), kinds, t.Context(), cfg, ""}
	w.make(situation{Name: "shop", Given: shop})
	cs := kubernetes.NewForConfigOrDie(cfg)

	anon := rest.AnonymousClientConfig(cfg) // only to have a port that is free: it may read nothing
	before := run(cluster.Config{Explains: &cluster.Elsewhere{Rest: anon, Survey: survey.World}})
	u, err := url.Parse(before.URL())
	if err != nil {
		t.Fatal(err)
	}
	if err := before.Stop(); err != nil {
		t.Fatal(err)
	}
	w.make(situation{Name: "kloop-lookout", Given: installed(t, u.Port()) + `
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: routes, labels: {kloop.dev/aggregate-to-lookout: "true"}}
rules: [{apiGroups: [any.example.com], resources: [routes], verbs: [list]}]
`})
	token := func(name string) string {
		out, err := cs.CoreV1().ServiceAccounts("kloop-lookout").CreateToken(t.Context(), name, &authenticationv1.TokenRequest{},
			metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return out.Status.Token
	}
	own := rest.AnonymousClientConfig(cfg)
	own.BearerToken = token("lookout")
	out := run(cluster.Config{Listen: u.Host, Explains: &cluster.Elsewhere{Rest: own, Every: 20 * time.Millisecond, Survey: survey.World}})

	path := "/apis/" + convergence.GroupVersion.String()
	get := func(cfg *rest.Config, path string) string {
		data, err := kubernetes.NewForConfigOrDie(cfg).Discovery().RESTClient().Get().AbsPath(path).DoRaw(t.Context())
		if err != nil {
			return fmt.Sprint(err, string(data))
		}
		return string(data)
	}
	says := func(what string, cfg *rest.Config, path string, want string) {
		t.Helper()
		w.until(what, func() error {
			if got := get(cfg, path); !strings.Contains(got, want) {
				return fmt.Errorf("%s: %.600s", path, got)
			}
			return nil
		})
	}
	says("the cluster explains itself", cfg, path+"/namespaces/shop/gaps", "uses the claim data, which does not exist")
	says("kinds that were added too", cfg, path+"/gaps", "route/web is not accepted by its parent gw")
	says("an object that rests, by name", cfg, path+"/namespaces/shop/gaps/deployments.apps:rest", "it is scaled to 0")
	viewer := rest.CopyConfig(cfg)
	viewer.Impersonate.UserName = "viewer"
	says("who may view a namespace", viewer, path+"/namespaces/shop/gaps", "uses the claim data")
	says("and no other", viewer, path+"/namespaces/default/gaps", "forbidden")
	if _, err := cs.RbacV1().RoleBindings("shop").Patch(t.Context(), "viewer", types.JSONPatchType,
		[]byte(`[{"op":"replace","path":"/subjects/0/name","value":"other"}]`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	says("rights that are taken away", viewer, path+"/namespaces/shop/gaps", "forbidden")
	turns := 0
	w.until("a fight is seen", func() error {
		turns++
		_, err := cs.AppsV1().Deployments("shop").Patch(t.Context(), "rest", types.MergePatchType,
			fmt.Appendf(nil, `{"spec":{"paused":%t}}`, turns%2 == 0), metav1.PatchOptions{FieldManager: fmt.Sprint("manager-", turns%2)})
		if err != nil {
			return err
		}
		if got := get(cfg, path+"/namespaces/shop/fights"); !strings.Contains(got, "paused") {
			return fmt.Errorf("after %d turns: %s", turns, got)
		}
		return nil
	})

	// Beside the cluster's API nobody is believed but by a token of the cluster.
	direct := &rest.Config{Host: out.URL(), TLSClientConfig: rest.TLSClientConfig{Insecure: true}, BearerToken: token("default")}
	if got := get(direct, path+"/gaps"); !strings.Contains(got, "forbidden") {
		t.Errorf("an account without rights reads gaps: %s", got)
	}
	direct.BearerToken = ""
	if got := get(direct, path+"/gaps"); !strings.Contains(got, "forbidden") && !strings.Contains(got, "nauthorized") {
		t.Errorf("nobody reads gaps: %s", got)
	}

	// Its page reads the cluster with the token of who looks: what they may, and no Secret. What it keeps of its own nobody sees or writes.
	direct.BearerToken = ""
	says("the page is for all", direct, "/ui/", "<!doctype html>")
	says("and shows nobody anything", direct, "/api/v1/namespaces/shop/pods", "system:anonymous")
	direct.BearerToken = token("default")
	says("nor whom the cluster refuses", direct, "/api/v1/namespaces/shop/pods", "cannot list resource")
	w.make(situation{Name: "looker", Given: `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: looker}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: admin}
subjects: [{kind: ServiceAccount, name: default, namespace: kloop-lookout}]
`})
	says("who may read the cluster's pods", direct, "/api/v1/namespaces/shop/pods", `"name":"lost"`)
	says("and gaps", direct, path+"/namespaces/shop/gaps", "uses the claim data")
	says("and no Secret", direct, "/api/v1/namespaces/shop/secrets", "shows no Secrets")
	writer := kubernetes.NewForConfigOrDie(direct).CoreV1().RESTClient().Post().AbsPath("/api/v1/namespaces/shop/configmaps").
		Body([]byte(`{"metadata":{"name":"x"}}`))
	if data, err := writer.DoRaw(t.Context()); err == nil || !strings.Contains(string(data), "only reads") {
		t.Errorf("the page writes: %v %s", err, data)
	}
	w.make(situation{Name: "monitoring", Given: `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: monitoring}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "kloop:lookout:metrics"}
subjects: [{kind: ServiceAccount, name: default, namespace: kloop-lookout}]
`})
	direct.BearerToken = token("default")
	says("Prometheus reads figures", direct, "/metrics", `kloop_gaps{cause="ClaimMissing"`)
	rules, err := os.ReadFile("../../docs/monitoring/gaps.yaml")
	if err != nil {
		t.Fatal(err)
	}
	told := get(direct, "/metrics")
	for _, name := range regexp.MustCompile(`\bkloop_[a-z]+`).FindAllString(string(rules), -1) {
		if !strings.Contains(told, "\n"+name) {
			t.Errorf("docs/monitoring/gaps.yaml names %s, which is not told", name)
		}
	}
	if got := get(cfg, path+"/gaps") + get(direct, "/metrics"); strings.Contains(got, "marked-value") {
		t.Error("a Secret's value is told")
	}
	w.answersWithout(host, out)
}

// answersWithout asks by reading alone: as somebody who may read objects and no gaps, and when nobody explains any more.
func (w *world) answersWithout(host, lookout *cluster.Cluster) {
	w.t.Helper()
	w.make(situation{Name: "few", Given: `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: lister, namespace: shop}
rules: [{apiGroups: [""], resources: [pods, persistentvolumeclaims], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: lister, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: lister}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: lister}]
`})
	says := func(user, group string, code int, args []string, words ...string) {
		w.t.Helper()
		data, err := host.Kubeconfig(user, group)
		path := filepath.Join(w.t.TempDir(), "kubeconfig")
		if err = errors.Join(err, os.WriteFile(path, data, 0o600)); err != nil {
			w.fatal("%v", err)
		}
		w.until(user+" is answered", func() error {
			var all bytes.Buffer
			argv := append([]string{"kloop", "why", "--kubeconfig", path, "-n", "shop"}, args...)
			got := cli.Run(w.t.Context(), strings.NewReader(""), &all, &all, argv)
			for _, word := range words {
				if got != code || !strings.Contains(all.String(), word) {
					return &unexpected{got, all.String()}
				}
			}
			return nil
		})
	}
	const read = "who explains this cluster does not answer: "
	says("lister", "some", 3, nil, "uses the claim data", read, `User "lister" cannot list resource "gaps"`, "you may not list them")
	says("lister", "some", 3, []string{"pod/lost"}, "uses the claim data", read)
	says("nobody", "some", 1, nil, `User "nobody" cannot list resource "gaps"`)
	if err := lookout.Stop(); err != nil {
		w.fatal("%v", err)
	}
	says("admin", "system:masters", 3, nil, "uses the claim data", read)
	says("admin", "system:masters", 3, []string{"pod/lost"}, "uses the claim data", read)
}
