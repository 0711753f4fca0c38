package node

import (
	"cmp"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The back-offs before an attempt is made again, as upstream's: ten seconds, doubled to five minutes. A container's
// first restart does not wait, and one that ran for ten minutes starts over.
const (
	firstPause = 10 * time.Second
	lastPause  = 5 * time.Minute
	forgive    = 10 * time.Minute
)

// backoffs remembers how long attempts at something are put off. It is bounded by what exists: forget drops a pod's.
type backoffs struct {
	restart time.Duration // the longest pause of a crash loop; 0: lastPause

	mu sync.Mutex
	of map[pauseKey]*pause
}

type pauseKey struct {
	pod  types.UID
	what string
}

type pause struct {
	length time.Duration
	since  time.Time // the failure that it follows, by the clock of who tells of it
	from   time.Time // when it begins: the same moment, by a clock that nobody sets
	nth    int32     // restarts of the container that failed
	told   bool      // an event tells of it
	hash   string    // of the container that failed
}

func newBackoffs() *backoffs { return &backoffs{of: map[pauseKey]*pause{}} }

// failed notes a failure at the time; a failure that was noted before changes nothing. ran is the time that the
// attempt lasted.
func (p *backoffs) failed(uid types.UID, what string, at time.Time, ran time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note(pauseKey{uid, what}, pause{since: at, from: at}, ran, firstPause, lastPause)
}

// flat notes a failure that is tried again after the first pause, however often it happens.
func (p *backoffs) flat(uid types.UID, what string, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of[pauseKey{uid, what}] = &pause{length: firstPause, since: at, from: at}
}

// ended notes the end of the newest container of a name: as failed, but the first pause is none. One with another image than the one
// before it starts over. The end may lie in the future, when the clock was set back.
//
// Unlike Kubernetes, an agent that starts anew goes on with the pause that so many restarts have led to.
func (p *backoffs) ended(uid types.UID, c *container, now time.Time) {
	ran, first, most := c.ran(), time.Duration(0), cmp.Or(p.restart, lastPause)
	if c.restarts > 0 && ran <= forgive {
		first = min(firstPause<<min(c.restarts-1, 10), most)
	}
	key, next := pauseKey{uid, c.name}, pause{since: c.done, from: now.Add(-max(now.Sub(c.done), 0)), nth: c.restarts, hash: c.hash}
	p.mu.Lock()
	defer p.mu.Unlock()
	if cur := p.of[key]; cur != nil && cur.hash != c.hash {
		if next.follows(cur) {
			*cur = next
		}
		return
	}
	p.note(key, next, ran, first, most)
}

// follows says that the failure is a later one.
func (p *pause) follows(cur *pause) bool { return p.nth != cur.nth || p.since.After(cur.since) }

// note notes a failure: next but for its length. p is locked.
func (p *backoffs) note(key pauseKey, next pause, ran, first, most time.Duration) {
	cur := p.of[key]
	switch {
	case cur == nil:
		next.length = first
	case !next.follows(cur):
		return
	case ran <= forgive:
		next.length = min(max(cur.length*2, firstPause), most)
	}
	p.of[key] = &next
}

// announce says, once for each failure, that an event should tell of the pause after it.
func (p *backoffs) announce(uid types.UID, what string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	cur := p.of[pauseKey{uid, what}]
	if cur == nil || cur.told {
		return false
	}
	cur.told = true
	return true
}

// left is the rest of the pause; length is its whole.
func (p *backoffs) left(uid types.UID, what string, now time.Time) (left, length time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	cur := p.of[pauseKey{uid, what}]
	if cur == nil {
		return 0, 0
	}
	return max(0, cur.from.Add(cur.length).Sub(now)), cur.length
}

func (p *backoffs) clear(uid types.UID, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.of, pauseKey{uid, what})
}

func (p *backoffs) forget(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key := range p.of {
		if key.pod == uid {
			delete(p.of, key)
		}
	}
}
