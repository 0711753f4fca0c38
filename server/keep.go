package server

import (
	"sync"
	"time"

	"github.com/kloop-dev/kloop/view"
)

const (
	keptPages = 16               // snapshots that lists go on from
	keptFor   = 30 * time.Second // after which the store's history serves
)

// pages keeps the snapshots of lists that are not read to their end, so that the next page need not be decoded
// from the store's history. What it lacks costs time, nothing else.
type pages struct {
	mu   sync.Mutex
	kept []*view.Snapshot // oldest first
}

// keep keeps a snapshot for a while.
func (p *pages) keep(snap *view.Snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.kept {
		if s.Rev() == snap.Rev() {
			return
		}
	}
	if len(p.kept) == keptPages {
		p.kept = append(p.kept[:0:0], p.kept[1:]...)
	}
	p.kept = append(p.kept, snap)
	time.AfterFunc(keptFor, func() { p.drop(snap) })
}

func (p *pages) drop(snap *view.Snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var rest []*view.Snapshot
	for _, s := range p.kept {
		if s != snap {
			rest = append(rest, s)
		}
	}
	p.kept = rest
}

// at returns the kept snapshot of a revision, or nil.
func (p *pages) at(rev int64) *view.Snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.kept {
		if s.Rev() == rev {
			return s
		}
	}
	return nil
}
