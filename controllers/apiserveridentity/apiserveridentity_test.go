package apiserveridentity

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
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// TestID names servers as upstream does: base32 of the first half of a host name's SHA-256.
func TestID(t *testing.T) {
	if got, want := (Self{Host: "control-plane-1"}).ID(), "apiserver-kvdvtc4tefdyjnlb67q2xys5n4"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestLeases lives through a day of one server, in which it starts again and another one goes for good.
func TestLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := testcluster.Start(t)
		run := func(s Self) (stop func()) {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				done <- Controller(s).Run(ctx, loop.Env{Client: api.Local, Log: slog.New(slog.DiscardHandler), Now: time.Now,
					Events: client.NewRecorder(api.Local, "kloop", nil).For("apiserver", ""), Watch: &loop.Watchers{}})
			}()
			return func() {
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		}
		lease := func(s Self) *coordinationv1.Lease {
			return resource.Get(api.Read(), kinds.Leases, "kube-system", s.ID())
		}
		bystander := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "somebody-s"}}
		if _, err := api.Create(t.Context(), kinds.Leases, bystander); err != nil {
			t.Fatal(err)
		}
		a, b := Self{"a", "a_1"}, Self{"b", "b_1"}
		stopA, stopB := run(a), run(b)
		synctest.Wait()
		first := lease(a)
		if first == nil || lease(b) == nil || first.Labels["apiserver.kubernetes.io/identity"] != "kube-apiserver" ||
			first.Labels["kubernetes.io/hostname"] != "a" || *first.Spec.HolderIdentity != "a_1" || *first.Spec.LeaseDurationSeconds != 3600 {
			t.Fatalf("%+v, %+v", first, lease(b))
		}
		stopB()
		time.Sleep(55 * time.Minute)
		synctest.Wait()
		if lease(b) == nil || !lease(a).Spec.RenewTime.After(first.Spec.RenewTime.Time) {
			t.Error("a server that went a while ago is gone, or one that is there does not say so")
		}
		stopA()
		stopA = run(Self{"a", "a_2"})
		synctest.Wait()
		if got := lease(a); got.UID != first.UID || *got.Spec.HolderIdentity != "a_2" {
			t.Errorf("after a restart: %+v", got)
		}
		from := api.Read().Revision(kinds.Leases)
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if lease(b) != nil || lease(a) == nil || resource.Get(api.Read(), kinds.Leases, "kube-system", bystander.Name) == nil {
			t.Error("what has expired is there, or something else is gone")
		}
		if n := api.Read().Revision(kinds.Leases) - from; n > 24*7 {
			t.Errorf("%d writes in a day", n)
		}
		stopA()
	})
}
