package simtest

import (
	"context"
	"sync/atomic"
	"time"
)

// A life is one run of the operator, from its start to a crash.
type life struct {
	dead  atomic.Bool
	stop  context.CancelFunc
	ctx   context.Context
	done  chan struct{}
	exact int64     // lists that may be old are answered from this revision; 0: from the newest
	until time.Time // until when watches are held back
}

// restarts bounds how often an operator may end by itself.
const restarts = 20

// live starts a life: new memory, new caches.
func (w *World) live() {
	r := w.run
	l := &life{done: make(chan struct{})}
	l.ctx, l.stop = context.WithCancel(w.door.ctx)
	r.mu.Lock()
	if r.back > 0 {
		l.exact, l.until = r.seen.revision(r.back), time.Now().Add(r.stale)
		r.back = 0
	}
	r.now = l
	own := *w
	own.life = l
	r.mu.Unlock()
	w.run.lives.Go(func() {
		defer close(l.done)
		err := w.c.Start(l.ctx, &own)
		if l.ctx.Err() != nil {
			return
		}
		l.die()
		r.mu.Lock()
		r.deaths++
		n := r.deaths
		r.mu.Unlock()
		if n > restarts {
			r.fail("the operator ended by itself %d times, last with: %v", n, err)
			return
		}
		w.run.lives.Go(func() { w.again(time.Second) }) // as a container is restarted
	})
}

// die cuts a life off from the cluster for good, and ends its context.
func (l *life) die() {
	l.dead.Store(true)
	l.stop()
}

// crash ends the present life in the middle of whatever it does, and starts another after it.
func (w *World) crash(f *Fault) {
	r := w.run
	r.mu.Lock()
	l := r.now
	if l.dead.Load() { // nobody is there
		r.mu.Unlock()
		return
	}
	l.dead.Store(true)
	pause := f.For / 4
	if f.Back > 0 {
		r.back, r.stale = f.Back, f.For
	}
	if until := time.Now().Add(2 * f.For); until.After(r.trouble) {
		r.trouble = until
	}
	r.mu.Unlock()
	l.stop()
	r.lives.Go(func() {
		if w.bury(l) {
			w.again(pause)
		}
	})
}

// again starts the next life after a pause.
func (w *World) again(pause time.Duration) {
	if sleep(w.door.ctx, pause) {
		w.live()
	}
}

// bury waits until a life has ended and says whether it did.
func (w *World) bury(l *life) bool {
	const limit = 2 * time.Minute
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-l.done:
		return true
	case <-timer.C:
		w.run.fail("Start did not return within %s of the end of its context", limit)
		return false
	}
}

// sleep waits and says whether ctx lasted.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
