package machine

import (
	"context"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/node/credential"
	"github.com/kloop-dev/kloop/resource"
)

// TestJoinedNodeAnnounces: a joined node may read all that its loops need, over HTTP and with its own certificate, and may hold the
// Lease of an address for which it is a candidate; no other.
func TestJoinedNodeAnnounces(t *testing.T) {
	ctx, quiet := t.Context(), slog.New(slog.DiscardHandler)
	// The loop load-balancer would drop the test's Leases.
	c, cfg := started(t, cluster.Config{Controllers: []string{"*", "-load-balancer"}})
	token, err := cluster.NodeToken(ctx, c.Client(), c.URL(), cfg.CAData, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	n := Joined{Config: Config{Name: "n1", Address: netip.MustParseAddr("10.0.0.1"), Proxy: true, Log: quiet}, Keys: t.TempDir(),
		Join: credential.Discovery{Server: c.URL(), Token: token, Hashes: []string{hashOf(t, cfg)}}}
	_, remote, err := n.enrol(ctx)
	if err != nil {
		t.Fatal(err)
	}
	run, stop := context.WithCancel(ctx)
	defer stop()
	complete, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- remote.Run(run, func() { close(complete) }) }()
	select {
	case <-complete:
	case <-time.After(2 * time.Minute):
		t.Fatalf("the node can't read what its loops need: %s", remote.Trouble())
	}
	create := func(k resource.Kind, obj resource.Object) {
		t.Helper()
		if _, err := c.Client().Create(ctx, k, obj); err != nil {
			t.Fatal(err)
		}
	}
	create(kinds.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: wellknown.AnnounceSpace}})
	for name, candidates := range map[string]string{"l2-192.0.2.1": `[{"node":"n1","address":"10.0.0.1"}]`,
		"l2-192.0.2.2": `[{"node":"n2","address":"10.0.0.2"}]`} {
		create(kinds.Leases, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: wellknown.AnnounceSpace, Name: name,
			Labels:      map[string]string{wellknown.AnnounceLabel: "layer2"},
			Annotations: map[string]string{wellknown.AnnouncedCandidates: candidates}}})
	}
	take := func(name string) error {
		t.Helper()
		feed := remote.Feed(kinds.Leases)
		var l *coordinationv1.Lease
		for l == nil { // until the node sees it
			if _, err := feed.Next(ctx); err != nil {
				t.Fatal(err)
			}
			l = resource.Get(remote.Read(), kinds.Leases, wellknown.AnnounceSpace, name)
		}
		next := resource.Clone(l)
		next.Spec.HolderIdentity = &n.Name
		_, err := remote.Update(ctx, kinds.Leases, next, "")
		return err
	}
	if err := take("l2-192.0.2.1"); err != nil {
		t.Errorf("take an address: %v", err)
	}
	if err := take("l2-192.0.2.2"); !apierrors.IsForbidden(err) {
		t.Errorf("take the address of others: %v, want that it is forbidden", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
