package loadbalancer

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// TestLeaseWithoutLabel: a Lease that somebody took the label from is found by its name, and gets the label back: by it the nodes know it.
func TestLeaseWithoutLabel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := testcluster.Start(t)
		for _, labels := range []map[string]string{nil, {wellknown.AnnounceLabel: "other", "mine": "stays"}} {
			l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: wellknown.AnnounceSpace, GenerateName: "l2-", Labels: labels}}
			if _, err := api.Create(t.Context(), kinds.Leases, l); err != nil {
				t.Fatal(err)
			}
		}
		again := &loop.Controller[*coordinationv1.Lease]{Name: "again", For: kinds.Leases, Writes: []resource.Kind{kinds.Leases},
			Reconcile: func(ctx context.Context, c *loop.Ctx, l *coordinationv1.Lease) (time.Duration, error) {
				return 0, lease(ctx, c, nil, l.Name, "layer2", map[string]string{wellknown.AnnouncedCandidates: "[]"})
			}}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- again.Run(ctx, loop.Env{Client: api.Local, Log: slog.New(slog.DiscardHandler), Now: time.Now,
				Events: client.NewRecorder(api.Local, "kloop", nil).For("again", ""), Watch: &loop.Watchers{}})
		}()
		synctest.Wait()
		all := 0
		for _, l := range resource.List(api.Read(), kinds.Leases, wellknown.AnnounceSpace) {
			all++
			if l.Labels[wellknown.AnnounceLabel] != "layer2" || l.Annotations[wellknown.AnnouncedCandidates] != "[]" {
				t.Errorf("labels %v, annotations %v", l.Labels, l.Annotations)
			}
		}
		if all != 2 {
			t.Errorf("%d Leases", all)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
