package cluster_test

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/cluster"
)

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
			err := cluster.RunLoops(ctx, cluster.Loops{Rest: cfg, Log: quiet, Config: cluster.Config{NodeMonitorGrace: time.Minute}, Election: client.Election{
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
