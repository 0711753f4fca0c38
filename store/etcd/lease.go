package etcd

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// maxLeaseKeys bounds the keys that go in one write when their lease ends.
const maxLeaseKeys = 1000

// leases gives keys of similar expiry the same lease: a lease costs a write of its own and memory for as
// long as it lives. A key outlives its lifetime by a twentieth of it, between one second and one minute.
type leases struct {
	grant func(ctx context.Context, ttl time.Duration) (clientv3.LeaseID, error)

	mu     sync.Mutex
	shared map[time.Duration]*shared // by lifetime, in whole seconds
}

// shared is a lease that keys with one lifetime take until it would end too early for them.
type shared struct {
	turn  chan struct{} // holds one token; who has taken it may use what follows
	id    clientv3.LeaseID
	until time.Time
	keys  int
}

// lease returns a lease that lives for at least ttl from now.
func (l *leases) lease(ctx context.Context, now time.Time, ttl time.Duration) (clientv3.LeaseID, error) {
	ttl = wholeSeconds(ttl)
	sh := l.of(ttl, now)
	if err := sh.take(ctx); err != nil {
		return 0, err
	}
	defer sh.giveBack()
	if sh.until.Before(now.Add(ttl)) || sh.keys == maxLeaseKeys {
		asked, whole := time.Now(), ttl+slack(ttl)
		id, err := l.grant(ctx, whole)
		if err != nil {
			return 0, err
		}
		sh.id, sh.until, sh.keys = id, asked.Add(whole), 0
	}
	sh.keys++
	return sh.id, nil
}

// forget makes the next key of a lifetime take a new lease, because etcd doesn't know this one any more.
func (l *leases) forget(ctx context.Context, ttl time.Duration, id clientv3.LeaseID) {
	sh := l.of(wholeSeconds(ttl), time.Now())
	if sh.take(ctx) != nil {
		return
	}
	defer sh.giveBack()
	if sh.id == id {
		sh.until = time.Time{}
	}
}

// of returns the shared lease of a lifetime. When there is none, it forgets those of other lifetimes that
// have ended, so that there are no more of them than lifetimes in use.
func (l *leases) of(ttl time.Duration, now time.Time) *shared {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sh, ok := l.shared[ttl]; ok {
		return sh
	}
	if l.shared == nil {
		l.shared = map[time.Duration]*shared{}
	}
	for other, sh := range l.shared {
		select {
		case <-sh.turn:
			if sh.until.Before(now) {
				delete(l.shared, other)
			}
			sh.giveBack()
		default: // in use
		}
	}
	sh := &shared{turn: make(chan struct{}, 1)}
	sh.giveBack()
	l.shared[ttl] = sh
	return sh
}

func (sh *shared) take(ctx context.Context) error {
	select {
	case <-sh.turn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (sh *shared) giveBack() { sh.turn <- struct{}{} }

func wholeSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

// slack is the time by which a key may outlive its lease, for others to share its lease.
func slack(ttl time.Duration) time.Duration {
	return min(max(ttl/20, time.Second), time.Minute).Truncate(time.Second)
}

// grant asks etcd for a lease.
func (s *Store) grant(ctx context.Context, ttl time.Duration) (clientv3.LeaseID, error) {
	resp, err := s.client.Grant(ctx, int64(ttl/time.Second))
	if err != nil {
		return 0, err
	}
	return resp.ID, nil
}
