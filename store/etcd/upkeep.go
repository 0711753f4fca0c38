package etcd

import (
	"context"
	"fmt"
	"strconv"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kloop-dev/kloop/store"
)

const (
	// A database file is rewritten without its holes when they are more than half of it and at least
	// minWaste bytes. Nothing can be read or written meanwhile, which takes about a second for 100 MB of live
	// data, so while the store is in use it is done up to maxLive bytes only. A larger database waits for the
	// next start: later writes fill its holes, they don't hurt.
	minWaste = 64 << 20
	maxLive  = 32 << 20

	// upkeepPatience bounds one round of upkeep.
	upkeepPatience = 5 * time.Minute

	// spaceEvery bounds how often running out of space makes the store look for some.
	spaceEvery = time.Minute
)

// keepUp compacts the history, so that what is older than keep goes at the latest after twice that time, and
// gives space and memory back. It wakes nobody while the store rests: without writes there is nothing to do.
func (s *Store) keepUp(keep time.Duration) {
	tick := time.NewTicker(keep)
	defer tick.Stop()
	resting := time.NewTimer(restsAfter) // opening has filled the map
	defer resting.Stop()
	c := &compaction{store: s}
	var lastSpace time.Time
	for {
		var what string
		var round func(context.Context) error
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
			what, round = "compact the history", c.round
		case <-s.warm:
			resting.Reset(restsAfter)
			continue
		case <-resting.C:
			what, round = "let go of memory", s.rest
		case <-s.full:
			if time.Since(lastSpace) < spaceEvery {
				continue
			}
			what, round = "make space", s.emergency
			lastSpace = time.Now()
		}
		if s.room.tight() {
			continue // compacting and rewriting need room themselves
		}
		ctx, cancel := context.WithTimeout(s.ctx, upkeepPatience)
		start := time.Now()
		if err := round(ctx); err != nil && s.ctx.Err() == nil {
			s.log.Warn(what, "err", err, "took", time.Since(start))
		}
		cancel()
	}
}

// A compaction remembers how far the history went a round ago.
type compaction struct {
	store *Store
	rev   int64 // the store's revision a round ago
	turn  int64 // version of the key that tells whose turn it is, in a cluster
}

// round compacts up to the revision of a round ago, and gives space back.
func (c *compaction) round(ctx context.Context) error {
	old, mine := c.rev, true
	if c.store.Sole() {
		c.rev = c.store.head.now()
		mine = old != c.rev
	} else {
		var err error
		if mine, err = c.takeTurn(ctx); err != nil {
			return err
		}
	}
	if mine && old != 0 {
		if err := c.store.Compact(ctx, old); err != nil {
			return err
		}
	}
	if c.store.member == nil {
		return nil
	}
	return c.store.member.defragment()
}

// turnKey is the key by which upstream's API servers agree on which of them compacts: the one that raises the version
// of the key. The value is a revision, for people to read.
const turnKey = "compact_rev_key"

// takeTurn reports whether this server is the first that comes to the key in this round.
func (c *compaction) takeTurn(ctx context.Context) (bool, error) {
	resp, err := c.store.client.Txn(ctx).
		If(clientv3.Compare(clientv3.Version(turnKey), "=", c.turn)).
		Then(clientv3.OpPut(turnKey, strconv.FormatInt(c.rev, 10))).
		Else(clientv3.OpGet(turnKey)).
		Commit()
	if err != nil {
		return false, fmt.Errorf("take the turn: %w", err)
	}
	c.rev = resp.Header.Revision
	if resp.Succeeded {
		c.turn++
		return true, nil
	}
	c.turn = 0
	for _, kv := range resp.Responses[0].GetResponseRange().Kvs {
		c.turn = kv.Version
	}
	return false, nil
}

// defragment rewrites the database file without its holes when that is worth it.
func (m *member) defragment() error {
	size, live := m.server.Backend().Size(), m.server.Backend().SizeInUse()
	if !wasteful(size, live) || live > maxLive {
		return nil
	}
	return m.server.Defragment()
}

func wasteful(size, live int64) bool {
	return size-live >= minWaste && size-live > size/2
}

// makeSpace lets the upkeep know that a write found no space.
func (s *Store) makeSpace() {
	select {
	case s.full <- struct{}{}:
	default:
	}
}

// emergency gives up the history for the sake of new writes, and ends the alarm that refuses them when there
// is room again. It takes as long as it takes: nothing can be written anyway.
func (s *Store) emergency(ctx context.Context) error {
	if s.member == nil {
		return nil // those who run the cluster decide
	}
	server := s.member.server
	if err := s.compact(ctx, s.head.now(), clientv3.WithCompactPhysical()); err != nil {
		return err
	}
	if err := server.Defragment(); err != nil {
		return fmt.Errorf("defragment: %w", err)
	}
	if size := server.Backend().Size(); size > s.member.quota/10*9 {
		return fmt.Errorf("%w: %d bytes are live, the quota is %d: delete objects or raise it", store.ErrNoSpace, size, s.member.quota)
	}
	for _, alarm := range server.Alarms() {
		if s.member.shared && alarm.MemberID != uint64(server.MemberID()) {
			continue // that member makes space for itself
		}
		_, err := server.Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, MemberID: alarm.MemberID, Alarm: alarm.Alarm})
		if err != nil {
			return fmt.Errorf("end the alarm %v: %w", alarm.Alarm, err)
		}
	}
	return nil
}
