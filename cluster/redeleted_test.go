package cluster_test

import (
	"encoding/json"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kloop-dev/kloop/cluster"
)

// A definition under deletion that is deleted again is treated as any object that finalizers hold: the policy is heard, and no grace is
// left (1.36.3 and 1.37.2).
func TestDefinitionDeletedAgain(t *testing.T) {
	rest := kubernetes.NewForConfigOrDie(config(t, start(t, cluster.Config{}))).RESTClient()
	const defs = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	def := []byte(`{"metadata":{"name":"things.twice.example","finalizers":["a.b/c"]},"spec":{"group":"twice.example","scope":"Namespaced",
		"names":{"plural":"things","kind":"Thing"},"versions":[{"name":"v1","served":true,"storage":true,
		"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`)
	if err := rest.Post().AbsPath(defs).Body(def).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		policy, finalizer string // asked for, and held by
		graced            bool
	}{
		{"", "customresourcecleanup.apiextensions.k8s.io", false},
		{"Foreground", metav1.FinalizerDeleteDependents, true},
		{"Orphan", metav1.FinalizerOrphanDependents, true},
	} {
		req := rest.Delete().AbsPath(defs, "things.twice.example")
		if c.policy != "" {
			req = req.Param("propagationPolicy", c.policy)
		}
		var got struct{ Metadata metav1.ObjectMeta }
		if data, err := req.DoRaw(t.Context()); err != nil {
			t.Fatal(err)
		} else if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		if m := got.Metadata; !slices.Contains(m.Finalizers, c.finalizer) || (m.DeletionGracePeriodSeconds != nil) != c.graced {
			t.Errorf("policy %q: %v, grace %v", c.policy, m.Finalizers, m.DeletionGracePeriodSeconds)
		}
	}
}
