package nodelifecycle

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// A laggard is a client whose reads lag behind as long as old is what they know of the lease, and which can lose the store.
type laggard struct {
	client.Client
	old   atomic.Pointer[coordinationv1.Lease]
	cut   atomic.Bool // off the store
	asked atomic.Int64
}

type stale struct {
	resource.Reader
	old *coordinationv1.Lease
}

func (l *laggard) Read() resource.Reader { return stale{l.Client.Read(), l.old.Load()} }

// Feed tells nothing of leases.
func (l *laggard) Feed(list ...resource.Kind) client.Feed {
	return l.Client.Feed(slices.DeleteFunc(slices.Clone(list), func(k resource.Kind) bool { return k.Info().GVK.Kind == "Lease" })...)
}

func (s stale) Lookup(k resource.Kind, ns, name string) resource.Object {
	if s.old != nil && k.Info().GVK.Kind == "Lease" && name == s.old.Name {
		return s.old
	}
	return s.Reader.Lookup(k, ns, name)
}

func (l *laggard) Get(ctx context.Context, k resource.Kind, ns, name string) (resource.Object, error) {
	l.asked.Add(1)
	if l.cut.Load() {
		return nil, errors.New("no store")
	}
	return l.Client.Get(ctx, k, ns, name)
}

// TestConfirm: a node counts as lost when the store says so, too: neither while reads lag behind its lease, nor while the store can't be
// asked.
func TestConfirm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testcluster.Start(t).Local
		create := func(k resource.Kind, o resource.Object) resource.Object {
			t.Helper()
			out, err := c.Create(t.Context(), k, o)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		create(kinds.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: corev1.NamespaceNodeLease}})
		create(kinds.Nodes, node("True"))
		lease := create(kinds.Leases, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "n"},
			Spec: coordinationv1.LeaseSpec{RenewTime: new(metav1.NowMicro())}}).(*coordinationv1.Lease)
		l := &laggard{Client: c}
		l.old.Store(lease)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- Controller(10*time.Second).Run(ctx, loop.Env{Client: l, Log: slog.New(slog.DiscardHandler), Now: time.Now,
				Events: client.NewRecorder(c, "test", nil).For("test", "")})
		}()
		ready := func() corev1.ConditionStatus {
			synctest.Wait()
			return find(resource.Get(c.Read(), kinds.Nodes, "", "n"), corev1.NodeReady).Status
		}
		for range 12 { // two minutes
			time.Sleep(10 * time.Second)
			lease = resource.Clone(resource.Get(c.Read(), kinds.Leases, corev1.NamespaceNodeLease, "n"))
			lease.Spec.RenewTime = new(metav1.NowMicro())
			if _, err := c.Update(t.Context(), kinds.Leases, lease, ""); err != nil {
				t.Fatal(err)
			}
			if got := ready(); got != corev1.ConditionTrue {
				t.Fatalf("a node that renews its lease is %s", got)
			}
		}
		l.old.Store(nil)
		l.cut.Store(true)
		time.Sleep(2 * time.Minute)
		if got := ready(); got != corev1.ConditionTrue {
			t.Errorf("without a store the node is %s", got)
		}
		l.cut.Store(false)
		time.Sleep(2 * time.Minute)
		if got := ready(); got != corev1.ConditionUnknown {
			t.Errorf("a silent node is %s", got)
		}
		was := l.asked.Load()
		time.Sleep(10 * time.Minute)
		if got := ready(); got != corev1.ConditionUnknown || l.asked.Load() != was {
			t.Errorf("it is %s, asked for %d times more", got, l.asked.Load()-was)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
