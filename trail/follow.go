package trail

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/kloop-dev/kloop/internal/coldsort"
)

const (
	followFor = time.Hour       // the longest that a client may follow
	askEvery  = time.Second     // between two questions to the other servers
	late      = 5 * time.Second // by which a server may tell of a write after another one tells what followed from it
)

// A follower tells one client what comes and belongs to an object's trail.
type follower struct {
	*teller
	object Ref
	// What follows from writes that were not told, by the revisions of those, which another server may yet tell of: of the last moments, and
	// of those before.
	young, old orphans
	turned     time.Time // when old became old
}

type orphans map[int64]map[int64]Write

// follow tells what comes, here and on the other servers, until the client has gone.
func (l *Log) follow(t *teller, object Ref, noted int, how Telling) {
	var elsewhere chan []Write
	if how.Others != nil {
		ctx, stop := context.WithCancel(t.ctx)
		elsewhere = make(chan []Write)
		var asking sync.WaitGroup
		defer asking.Wait()
		defer stop()
		asking.Go(func() { l.hear(ctx, how.Others, elsewhere) })
	}
	end := time.NewTimer(followFor)
	defer end.Stop()
	f := &follower{teller: t, object: object, young: orphans{}}
	var heard []Write
	for f.err == nil {
		list, now, news := l.after(noted)
		noted = now
		f.take(append(list, heard...))
		f.turn(l.cfg.Now(), l.cfg.Recent)
		heard = nil
		select {
		case <-t.ctx.Done():
			return
		case <-end.C:
			return
		case heard = <-elsewhere:
			continue
		case <-news:
		}
		if !rest(t.ctx, burst) {
			return
		}
	}
}

// take tells those of new writes that belong to the trail, and what waited for them.
func (f *follower) take(list []Write) {
	coldsort.StableFunc(list, func(a, b Write) int { return cmp.Compare(a.Rev, b.Rev) })
	for len(list) > 0 && f.err == nil {
		w := list[0]
		list = list[1:]
		p, follows := w.Parent()
		switch {
		case f.seen[w.Rev]:
		case w.object() == f.object || follows && f.seen[p.Rev] || w.Cause != nil && w.Cause.Key == f.object:
			f.tell([]Write{w})
			list = append(f.found(w.Rev), list...)
		case follows:
			if f.young[p.Rev] == nil {
				f.young[p.Rev] = map[int64]Write{}
			}
			f.young[p.Rev][w.Rev] = w
		}
	}
}

// found returns what waited for a write, oldest first.
func (f *follower) found(rev int64) (list []Write) {
	for _, of := range []orphans{f.old, f.young} {
		for _, w := range of[rev] {
			list = append(list, w)
		}
		delete(of, rev)
	}
	coldsort.Func(list, func(a, b Write) int { return cmp.Compare(a.Rev, b.Rev) })
	return list
}

// turn forgets what waited long, or the older half of what is too much.
func (f *follower) turn(now time.Time, most int) {
	if now.Sub(f.turned) > late || len(f.young) > most {
		f.young, f.old, f.turned = orphans{}, f.young, now
	}
}

// hear asks the other servers what they have written, again and again, until ctx ends. As few ask at a time as at the beginning.
func (l *Log) hear(ctx context.Context, others func(context.Context, time.Time) ([]Write, []string), to chan<- []Write) {
	since := l.cfg.Now()
	for rest(ctx, askEvery) {
		select {
		case l.asks <- struct{}{}:
		case <-ctx.Done():
			return
		}
		began := l.cfg.Now()
		list, _ := others(ctx, since.Add(-late)) // one that does not answer was warned of, or has stopped since
		<-l.asks
		since = began
		if len(list) == 0 {
			continue
		}
		select {
		case to <- list:
		case <-ctx.Done():
			return
		}
	}
}

// burst is a pause after a write, since others come at once behind it: they are looked at together.
const burst = 50 * time.Millisecond

// rest waits; false: the client has gone.
func rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
