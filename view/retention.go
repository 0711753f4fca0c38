package view

import "time"

// Retained snapshots answer the later pages of a list.
const (
	maxRetained = 32
	retainFor   = 5 * time.Minute
)

// retention keeps snapshots for a while, the one that goes first in front. It is guarded by the view's mu.
type retention struct{ list []retained }

type retained struct {
	s     *Snapshot
	until time.Time
}

// keep keeps a snapshot, from now on.
func (r *retention) keep(s *Snapshot) {
	r.expire()
	until := time.Now().Add(retainFor)
	for i := range r.list {
		if r.list[i].s == s {
			r.list = append(append(r.list[:i:i], r.list[i+1:]...), retained{s, until})
			return
		}
	}
	r.list = append(r.list, retained{s, until})
	if n := len(r.list) - maxRetained; n > 0 {
		r.list = append([]retained(nil), r.list[n:]...)
	}
}

// at returns the snapshot of the revision; nil when it is not kept.
func (r *retention) at(rev int64) *Snapshot {
	r.expire()
	for i := len(r.list) - 1; i >= 0; i-- {
		if r.list[i].s.rev == rev {
			return r.list[i].s
		}
	}
	return nil
}

func (r *retention) expire() {
	if len(r.list) == 0 {
		return
	}
	now := time.Now()
	for len(r.list) > 0 && r.list[0].until.Before(now) {
		r.list[0].s = nil
		r.list = r.list[1:]
	}
}

// Retain keeps a snapshot for SnapshotAt: up to five minutes, and only so many of them.
func (v *View) Retain(s *Snapshot) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.retained.keep(s)
	v.startAging()
}

// SnapshotAt returns the state at exactly this revision of a followed view: the newest, or a retained one.
// ErrExpired when it is neither; the store may still know it.
func (v *View) SnapshotAt(rev int64) (*Snapshot, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.rev.Load() == rev {
		return v.snapshot(), nil
	}
	if s := v.retained.at(rev); s != nil {
		return s, nil
	}
	return nil, ErrExpired
}
