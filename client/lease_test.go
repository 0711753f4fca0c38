package client_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// leases is a server that has one Lease at most. Hooks come before a request is carried out, or in its place.
type leases struct {
	client.Client
	mu     sync.Mutex
	lease  *coordinationv1.Lease
	get    func(ctx context.Context) error
	update func(ctx context.Context) error
	answer time.Duration // that the answer to a write that was carried out takes
	wrote  time.Time     // the newest write
}

func (s *leases) Get(ctx context.Context, _ resource.Kind, _, name string) (resource.Object, error) {
	if s.get != nil {
		if err := s.get(ctx); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease == nil {
		return nil, apierrors.NewNotFound(kinds.Leases.Info().GR(), name)
	}
	return s.lease.DeepCopy(), nil
}

func (s *leases) Create(ctx context.Context, _ resource.Kind, obj resource.Object) (resource.Object, error) {
	return s.store(ctx, obj)
}

func (s *leases) Update(ctx context.Context, _ resource.Kind, obj resource.Object, _ string) (resource.Object, error) {
	if s.update != nil {
		if err := s.update(ctx); err != nil {
			return nil, err
		}
	}
	return s.store(ctx, obj)
}

func (s *leases) store(ctx context.Context, obj resource.Object) (resource.Object, error) {
	s.mu.Lock()
	s.lease, s.wrote = obj.(*coordinationv1.Lease).DeepCopy(), time.Now()
	out := s.lease.DeepCopy()
	s.mu.Unlock()
	select {
	case <-time.After(s.answer):
		return out, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

var errDown = errors.New("the server is down")

// after has requests fail a while after they came; those that nobody waits for any more end before.
func after(d time.Duration, err error) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(d):
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// TestLeaderEndsInTime has a leader lose its server in several ways. Another replica that saw the newest write of the lease may lead when
// Duration has passed since: by then the first must have ended.
func TestLeaderEndsInTime(t *testing.T) {
	const duration, renew = 15 * time.Second, 3 * time.Second
	conflict := apierrors.NewConflict(kinds.Leases.Info().GR(), "l", errDown)
	for name, prepare := range map[string]func(s *leases){
		"renewals fail at once": func(s *leases) { s.update = after(0, errDown) },
		"renewals fail slowly":  func(s *leases) { s.update = after(2*time.Second, errDown) },
		"renewals hang":         func(s *leases) { s.update = after(time.Hour, nil) },
		"what a conflict is about can't be read": func(s *leases) {
			s.update = func(context.Context) error { s.get = after(time.Hour, nil); return conflict }
		},
		"the lease is taken, and the answer comes late": func(s *leases) {
			s.answer, s.update = duration-time.Second, after(0, errDown)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &leases{}
				prepare(s)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				led := false
				client.Election{Client: s, Namespace: "n", Name: "l", Identity: "one", Duration: duration, Renew: renew}.Run(ctx,
					func(ctx context.Context) {
						led = true
						<-ctx.Done()
						if since := time.Since(s.wrote); since > duration-time.Second {
							t.Errorf("it led for %v after the newest write of its lease, which others may take after %v", since, duration)
						}
					})
				if !led && s.answer < renew {
					t.Error("it never led")
				}
			})
		})
	}
}

// TestLeaderGoesOn has a renewal written whose answer is lost: the conflict that the next one meets is with the leader's own write.
func TestLeaderGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, renewals := &leases{}, 0
		s.update = func(context.Context) error {
			if renewals++; renewals%3 == 0 {
				return apierrors.NewConflict(kinds.Leases.Info().GR(), "l", errDown)
			}
			return nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		client.Election{Client: s, Namespace: "n", Name: "l", Identity: "one", Duration: 15 * time.Second, Renew: 3 * time.Second}.Run(ctx,
			func(lead context.Context) {
				if <-lead.Done(); ctx.Err() == nil {
					t.Errorf("it ended after %d renewals", renewals)
				}
			})
		if l := s.lease; l == nil || *l.Spec.HolderIdentity != "" {
			t.Errorf("the lease is not released: %v", l)
		}
	})
}
