package view

import (
	"sync"
	"time"
)

// sweepEvery is the time for which an encoding stays that nobody reads.
const sweepEvery = 2 * time.Minute

// A budget bounds the encodings of a view. It lists them in the order in which they were made and drops the
// oldest that nobody read since it was last looked at.
type budget struct {
	mu       sync.Mutex
	limit    int64
	used     int64
	root     encoded // of the ring: next is the oldest
	sweeping bool    // sweep comes by
}

func newBudget(limit int64) *budget {
	b := &budget{limit: limit}
	b.root.next, b.root.prev = &b.root, &b.root
	return b
}

// overhead is the memory that an encoding costs beside its bytes.
const overhead = 128

func (x *encoded) cost() int64 { return int64(len(x.data)) + overhead }

// add takes x, which is at home, into account, and old, which was there before, out of it.
func (b *budget) add(x *encoded, home *slot, old *encoded) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if old != nil {
		b.unlink(old)
	}
	if home.Load() != x { // forgotten meanwhile
		return
	}
	x.home = home
	b.link(x)
	b.used += x.cost()
	for b.used > b.limit {
		b.second(b.root.next)
	}
	if !b.sweeping {
		b.sweeping = true
		later(sweepEvery, b, (*budget).sweep)
	}
}

// second gives an encoding that was read a second chance, and drops others.
func (b *budget) second(x *encoded) {
	if x.read.Swap(false) {
		home := x.home
		b.used -= x.cost()
		b.unlist(x)
		x.home = home
		b.link(x)
		b.used += x.cost()
		return
	}
	x.home.CompareAndSwap(x, nil)
	b.unlink(x)
}

// sweep drops what nobody read since it last came by. It reports whether it has to come again.
func (b *budget) sweep() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := b.root.prev
	for x := b.root.next; x != &b.root; {
		next := x.next
		b.second(x)
		if x == last {
			break
		}
		x = next
	}
	b.sweeping = b.root.next != &b.root
	return b.sweeping
}

// forget drops all encodings of an entry that is history.
func (b *budget) forget(e *Entry) {
	for i := range e.enc.slots {
		if e.enc.slots[i].Load() == nil {
			continue
		}
		b.mu.Lock()
		if x := e.enc.slots[i].Swap(nil); x != nil {
			b.unlink(x)
		}
		b.mu.Unlock()
	}
	if last := e.last.Load(); last != nil {
		b.forget(last)
	}
}

func (b *budget) link(x *encoded) {
	x.prev, x.next = b.root.prev, &b.root
	x.prev.next, b.root.prev = x, x
}

// unlink takes x off the list, if it is there.
func (b *budget) unlink(x *encoded) {
	if x.home == nil {
		return
	}
	b.used -= x.cost()
	b.unlist(x)
	x.home = nil
}

func (b *budget) unlist(x *encoded) {
	x.prev.next, x.next.prev = x.next, x.prev
	x.prev, x.next = nil, nil
}
