package view

import "time"

// Retained snapshots answer the later pages of a list.
const (
	maxRetained = 32
	retainFor   = 5 * time.Minute
)

type retained struct {
	s     *Snapshot
	until time.Time
}

// Retain keeps a snapshot for SnapshotAt: up to five minutes, and only so many of them.
func (v *View) Retain(s *Snapshot) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.expireRetained()
	defer v.startAging()
	until := time.Now().Add(retainFor)
	for i := range v.retained {
		if v.retained[i].s == s {
			kept := v.retained[i]
			v.retained = append(append(v.retained[:i:i], v.retained[i+1:]...), retained{kept.s, until})
			return
		}
	}
	v.retained = append(v.retained, retained{s, until})
	if n := len(v.retained) - maxRetained; n > 0 {
		v.retained = append([]retained(nil), v.retained[n:]...)
	}
}

// SnapshotAt returns the state at exactly this revision of a followed view: the newest, or a retained one.
// ErrExpired when it is neither; the store may still know it.
func (v *View) SnapshotAt(rev int64) (*Snapshot, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.rev.Load() == rev {
		return v.snapshot(), nil
	}
	v.expireRetained()
	for i := len(v.retained) - 1; i >= 0; i-- {
		if v.retained[i].s.rev == rev {
			return v.retained[i].s, nil
		}
	}
	return nil, ErrExpired
}

// expireRetained needs mu.
func (v *View) expireRetained() {
	if len(v.retained) == 0 {
		return
	}
	now := time.Now()
	for len(v.retained) > 0 && v.retained[0].until.Before(now) {
		v.retained[0].s = nil
		v.retained = v.retained[1:]
	}
}
