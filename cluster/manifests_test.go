package cluster_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/kloop-dev/kloop/cluster"
)

// holder returns a function that waits until the ConfigMaps of a set, with their data, are these.
func holder(t *testing.T, maps typedcorev1.ConfigMapInterface) func(what, names string) {
	return func(what, names string) {
		t.Helper()
		eventually(t, what, func(ctx context.Context) (bool, error) {
			list, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "applyset.kubernetes.io/part-of"})
			if err != nil {
				return false, nil
			}
			var have []string
			for _, m := range list.Items {
				have = append(have, m.Name+"="+m.Data["a"])
			}
			return strings.Join(have, " ") == names, nil
		})
	}
}

// TestManifests edits the files of a server's manifests, and its objects, and looks at what the cluster makes of it.
func TestManifests(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("10-app.yaml", `
apiVersion: autoscaling/v1 # not the version that is stored
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: site}
spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
---
# a comment alone
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: one, namespace: site}, data: {a: "1"}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: two, namespace: site}, data: {a: "1"}}
- {apiVersion: example.com/v1, kind: Toy, metadata: {name: bear, namespace: site}, size: 3}
`)
	write("20-rest.yaml", `
apiVersion: v1
kind: Namespace
metadata: {name: site}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: toys.example.com}
spec:
  group: example.com
  names: {kind: Toy, plural: toys}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {size: {type: integer}}}}}]
`)
	c := start(t, cluster.Config{ManifestsDir: dir})
	cs := kubernetes.NewForConfigOrDie(config(t, c))
	maps := cs.CoreV1().ConfigMaps("site")
	holds := holder(t, maps)
	holds("the files are applied", "one=1 two=1")
	eventually(t, "the object of a kind that a file defines", func(ctx context.Context) (bool, error) {
		_, err := cs.RESTClient().Get().AbsPath("/apis/example.com/v1/namespaces/site/toys/bear").DoRaw(ctx)
		return err == nil, nil
	})
	hpa, err := cs.AutoscalingV2().HorizontalPodAutoscalers("site").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || hpa.ManagedFields[0].APIVersion != "autoscaling/v1" {
		t.Errorf("the autoscaler: %v %v", hpa, err)
	}

	if _, err := maps.Patch(t.Context(), "one", types.MergePatchType, []byte(`{"data":{"a":"9"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	holds("a change by others is taken back", "one=1 two=1")
	if err := maps.Delete(t.Context(), "two", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	holds("what others delete is made anew", "one=1 two=1")

	write("10-app.yaml", `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": "site"}, "data": {"a": "2"}}`)
	holds("what a file says no more is pruned", "one=2")
	write("10-app.yaml", "kind: {")
	write("15-more.yaml", `{apiVersion: v1, kind: ConfigMap, metadata: {name: more, namespace: site}, data: {a: "1"}}`)
	holds("a broken file loses nothing and holds up no other", "more=1 one=2")
	if err := os.Remove(filepath.Join(dir, "10-app.yaml")); err != nil {
		t.Fatal(err)
	}
	holds("a file that is gone loses all", "more=1")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	holds("an empty directory too", "")
	if _, err := cs.CoreV1().Namespaces().Get(t.Context(), "site", metav1.GetOptions{}); err != nil {
		t.Errorf("the namespace is kept: %v", err)
	}
}
