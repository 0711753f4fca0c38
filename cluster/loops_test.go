package cluster_test

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kit/whole"
)

// TestLoopsBesideAnOlderServer: the server lacks kinds that the loops know, and has one that they don't. The loops run all
// the same: aggregated roles get their rules, and a namespace goes only after what users defined in it.
func TestLoopsBesideAnOlderServer(t *testing.T) {
	c := start(t, cluster.Config{NoLoops: true, EmulatedVersion: "1.36"})
	cfg := config(t, c)
	cs := clientset(t, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- cluster.RunLoops(ctx, cluster.Loops{Rest: cfg, Log: quiet, Config: cluster.Config{Kit: whole.Kit()}, Election: client.Election{
			Namespace: "kube-system", Name: "kube-controller-manager", Identity: "one", Duration: time.Minute, Renew: time.Second}})
	}()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	for _, role := range []string{"admin", "edit", "view"} {
		eventually(t, "the rules of "+role, func(ctx context.Context) (bool, error) {
			r, err := cs.RbacV1().ClusterRoles().Get(ctx, role, metav1.GetOptions{})
			return err == nil && len(r.Rules) > 0, nil
		})
	}
	s := &shop{t, must[dynamic.Interface](t)(dynamic.NewForConfig(cfg))}
	s.must(definitionOf("databases", "Database", "{size: {type: integer}}"))
	ns := namespace(t, cs)
	held := "{apiVersion: shop.example/v1, kind: Database, metadata: {name: d, namespace: " + ns + ", finalizers: [shop.example/hold]}}"
	eventually(t, "a custom resource", func(context.Context) (bool, error) { _, err := s.create(held); return err == nil, nil })
	gvr := schema.GroupVersionResource{Group: "shop.example", Version: "v1", Resource: "databases"}
	s.must("{apiVersion: shop.example/v1, kind: Database, metadata: {name: lost, namespace: " + ns +
		", ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: c, uid: u}]}}")
	eventually(t, "a custom resource whose owner is gone goes", func(ctx context.Context) (bool, error) {
		_, err := s.dyn.Resource(gvr).Namespace(ns).Get(ctx, "lost", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if err := cs.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the custom resource is to go", func(ctx context.Context) (bool, error) {
		d, err := s.dyn.Resource(gvr).Namespace(ns).Get(ctx, "d", metav1.GetOptions{})
		return err == nil && d.GetDeletionTimestamp() != nil, nil
	})
	if _, err := s.dyn.Resource(gvr).Namespace(ns).Patch(t.Context(), "d", types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace is gone", func(ctx context.Context) (bool, error) {
		_, err := cs.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}

// TestLoopsOverHTTP runs a server without loops and two replicas of the loops beside it: one leads and converges a
// Deployment on simulated nodes; when it ends, the other takes over.
func TestLoopsOverHTTP(t *testing.T) {
	c := start(t, cluster.Config{NoLoops: true, SimNodes: 2})
	cfg := config(t, c)
	cs := clientset(t, cfg)
	stops := map[string]func(){}
	for _, id := range []string{"one", "two"} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		stops[id] = func() { cancel(); <-done }
		t.Cleanup(stops[id])
		go func() {
			defer close(done)
			err := cluster.RunLoops(ctx, cluster.Loops{Rest: cfg, Log: quiet,
				Config: cluster.Config{Kit: whole.Kit(), NodeMonitorGrace: time.Minute}, Election: client.Election{
					Namespace: "kube-system", Name: "kube-controller-manager", Identity: id, Duration: time.Minute, Renew: time.Second}})
			if err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}()
	}
	leader := func(not string) (id string) {
		eventually(t, "a leader", func(ctx context.Context) (bool, error) {
			l, err := cs.CoordinationV1().Leases("kube-system").Get(ctx, "kube-controller-manager", metav1.GetOptions{})
			if err != nil || l.Spec.HolderIdentity == nil {
				return false, nil
			}
			id = *l.Spec.HolderIdentity
			return id != "" && id != not, nil
		})
		return id
	}
	first := leader("")
	ns := namespace(t, cs)
	if _, err := cs.AppsV1().Deployments(ns).Create(t.Context(), deployment("web", 3), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	available(t, cs, ns, "web", 3)
	stops[first]()
	if second := leader(first); stops[second] == nil {
		t.Fatalf("led by %q", second)
	}
	if _, err := cs.AppsV1().Deployments(ns).Create(t.Context(), deployment("more", 2), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	available(t, cs, ns, "more", 2)
}
