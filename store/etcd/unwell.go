package etcd

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Refuses says why writes are not taken for want of space, and since when this is known; "": they are taken. A cluster elsewhere knows that
// of itself.
func (s *Store) Refuses() (why string, since time.Time) {
	if s.member == nil {
		return "", time.Time{}
	}
	if why, since = s.room.refuses(); why != "" {
		return why, since
	}
	if len(s.member.server.Alarms()) > 0 {
		return fmt.Sprintf("the database has reached its quota of %d MiB", s.member.quota>>20), time.Time{}
	}
	return "", time.Time{}
}

// A pace counts writes and the time that they took.
type pace struct{ writes, took atomic.Int64 }

func (p *pace) note(took time.Duration) {
	p.writes.Add(1)
	p.took.Add(int64(took))
}

// Pace says how many writes were answered since the start, and how long all of them together took.
func (s *Store) Pace() (writes int64, took time.Duration) {
	return s.pace.writes.Load(), time.Duration(s.pace.took.Load())
}

// Silent lists the other members that do not answer. It takes as long as the slowest of them, five seconds at most.
func (s *Store) Silent(ctx context.Context) (list []Peer) {
	if s.Sole() || s.member == nil {
		return nil
	}
	var mu sync.Mutex
	var asked sync.WaitGroup
	for _, m := range s.member.server.Cluster().Members() {
		if p := toPeer(m); m.ID != s.member.server.MemberID() && p.URL != "" {
			asked.Go(func() {
				if s.member.lives(ctx, p.URL) {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				list = append(list, p)
			})
		}
	}
	asked.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return list
}
