package etcd

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kloop-dev/kloop/store"
)

func TestLeasesAreShared(t *testing.T) {
	type want struct {
		at  time.Duration // when the key is written
		ttl time.Duration
		id  clientv3.LeaseID
	}
	tests := []struct {
		name string
		keys []want
	}{
		{"one hour lives a minute longer", []want{{0, time.Hour, 1}, {59 * time.Second, time.Hour, 1}, {61 * time.Second, time.Hour, 2}}},
		{"one second lives a second longer", []want{{0, time.Second, 1}, {900 * time.Millisecond, time.Second, 1},
			{2 * time.Second, time.Second, 2}}},
		{"parts of seconds are rounded up", []want{{0, 1500 * time.Millisecond, 1}, {0, 2 * time.Second, 1}, {0, 2001 * time.Millisecond, 2}}},
		{"different lifetimes, different leases", []want{{0, time.Hour, 1}, {0, time.Minute, 2}, {0, time.Hour, 1}, {0, time.Minute, 2}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // where the clock stands still between two lines
				l, granted := counted()
				for i, k := range tt.keys {
					id, err := l.lease(t.Context(), time.Now().Add(k.at), k.ttl)
					if err != nil || id != k.id {
						t.Errorf("key %d has lease %d, %v; want %d", i, id, err, k.id)
					}
					if min := k.ttl; granted[id] < min {
						t.Errorf("key %d has a lease of %v", i, granted[id])
					}
				}
			})
		})
	}
}

func TestLeaseIsNotOverfull(t *testing.T) {
	l, granted := counted()
	now := time.Now()
	for range 2*maxLeaseKeys + 1 {
		if _, err := l.lease(t.Context(), now, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if len(granted) != 3 {
		t.Errorf("%d leases", len(granted))
	}
}

func TestForgottenLeaseIsReplaced(t *testing.T) {
	l, _ := counted()
	now := time.Now()
	one, _ := l.lease(t.Context(), now, time.Hour)
	l.forget(t.Context(), time.Hour, one+1)
	if id, _ := l.lease(t.Context(), now, time.Hour); id != one {
		t.Errorf("lease %d instead of %d: another was forgotten", id, one)
	}
	l.forget(t.Context(), time.Hour, one)
	if id, _ := l.lease(t.Context(), now, time.Hour); id == one {
		t.Error("still the forgotten lease")
	}
}

func TestEndedLeasesAreDropped(t *testing.T) {
	l, _ := counted()
	for i := range 100 {
		l.lease(t.Context(), time.Now(), time.Duration(i+1)*time.Second)
	}
	l.of(time.Hour, time.Now().Add(24*time.Hour))
	if len(l.shared) != 1 {
		t.Errorf("%d lifetimes are remembered", len(l.shared))
	}
}

func TestWaitForLeaseEndsWithContext(t *testing.T) {
	l, _ := counted()
	stuck, release := make(chan struct{}), make(chan struct{})
	l.grant = func(context.Context, time.Duration) (clientv3.LeaseID, error) {
		close(stuck)
		<-release
		return 0, errors.New("no")
	}
	ended := make(chan error)
	go func() {
		_, err := l.lease(context.Background(), time.Now(), time.Hour)
		ended <- err
	}()
	<-stuck
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.lease(ctx, time.Now(), time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(release)
	if err := <-ended; err == nil {
		t.Error("a failed grant is no error")
	}
}

func counted() (*leases, map[clientv3.LeaseID]time.Duration) {
	granted := map[clientv3.LeaseID]time.Duration{}
	return &leases{grant: func(_ context.Context, ttl time.Duration) (clientv3.LeaseID, error) {
		id := clientv3.LeaseID(len(granted) + 1)
		granted[id] = ttl
		return id, nil
	}}, granted
}

// A key whose shared lease was taken away gets a new one.
func TestWriteAfterLeaseIsGone(t *testing.T) {
	s := openWith(t, Config{Dir: t.TempDir()})
	write(t, s, store.Write{Key: "/e/1", Value: []byte("x"), TTL: time.Hour})
	leases, err := s.client.Leases(t.Context())
	if err != nil || len(leases.Leases) != 1 {
		t.Fatalf("leases %v, %v", leases, err)
	}
	if _, err := s.client.Revoke(t.Context(), leases.Leases[0].ID); err != nil {
		t.Fatal(err)
	}
	write(t, s, store.Write{Key: "/e/2", Value: []byte("x"), TTL: time.Hour})
	if page, err := s.List(t.Context(), "/e/", "", 0, 0); err != nil || len(page.KVs) != 1 {
		t.Errorf("%d keys, %v", len(page.KVs), err)
	}
}
