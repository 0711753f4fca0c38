package cli

import (
	"context"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/kloop-dev/kloop/internal/resident"
)

// What makes work of the garbage collector a burst, and when that is over.
const (
	burstCycles = 4                // collections with no long pause between them
	burstPause  = 30 * time.Second // longer ones end it; the runtime collects every two minutes even at rest
	calm        = 15 * time.Second // after the last collection of a burst
	relief      = 40 * time.Second // after clients left: timers of their connections hold them for 30 s (server/httpapi, SendPingTimeout)
)

// trim gives memory back to the system when a burst of work is over: left alone, the runtime keeps for the next one
// as much again as is in use. It costs nothing at rest: the collector itself tells of its work.
func trim(ctx context.Context) *trimmer {
	t := &trimmer{free: giveBack, gc: gcPace{set: debug.SetGCPercent}}
	context.AfterFunc(ctx, t.stop)
	t.gc.begin()
	t.watch()
	return t
}

// giveBack gives the system what is free, and the pages of the program file: most of them were needed to start, or for the burst.
func giveBack() {
	debug.FreeOSMemory()
	program, err := os.Executable()
	if err == nil {
		err = resident.LetGo(program, "r-xp", "r--p")
	}
	if err != nil {
		slog.Debug("pages of the program stay", "err", err)
	}
}

// trimmer counts collections.
type trimmer struct {
	free func()
	gc   gcPace

	mu      sync.Mutex
	tidy    func() // before memory is given back; nil: nothing to do
	cycles  int
	last    time.Time
	timer   *time.Timer
	later   *time.Timer // soon's; nil: it was never called
	stopped bool
}

// watch has the next collection call t.cycle.
func (t *trimmer) watch() {
	runtime.AddCleanup(&struct {
		p *byte
		_ [56]byte // alone in its block, or it would live as long as its neighbours
	}{}, (*trimmer).collected, t)
}

// collected is called once after every collection.
func (t *trimmer) collected() {
	if t.cycle(time.Now()) {
		t.watch()
	}
}

// cycle notes a collection; false ends the watch.
func (t *trimmer) cycle(now time.Time) bool {
	defer t.gc.tune(t.bursts)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return false
	}
	if now.Sub(t.last) > burstPause {
		t.cycles = 0
	}
	t.cycles, t.last = t.cycles+1, now
	switch {
	case t.cycles < burstCycles:
	case t.timer == nil:
		t.timer = time.AfterFunc(calm, t.over)
	default:
		t.timer.Reset(calm)
	}
	return true
}

// bursts says that there is a burst.
func (t *trimmer) bursts() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cycles >= burstCycles && !t.stopped
}

// soon has memory given back although nothing was collected: what made it garbage needed none.
func (t *trimmer) soon() {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.stopped:
	case t.later == nil:
		t.later = time.AfterFunc(relief, t.over)
	default:
		t.later.Reset(relief)
	}
}

// now has memory given back at once: what was garbage is known to be much.
func (t *trimmer) now() { t.in(0) }

// started has memory given back when what has just started is calm: a start is too short to be a burst, and needs much once.
func (t *trimmer) started() { t.in(calm) }

func (t *trimmer) in(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.stopped:
	case t.timer == nil:
		t.timer = time.AfterFunc(d, t.over)
	default:
		t.timer.Reset(d)
	}
}

// over ends a burst.
func (t *trimmer) over() {
	t.mu.Lock()
	stopped, tidy := t.stopped, t.tidy
	t.cycles, t.timer = 0, nil
	t.mu.Unlock()
	t.gc.tune(t.bursts)
	if stopped {
		return
	}
	if tidy != nil {
		tidy()
	}
	t.free()
}

// after has f called when a burst is over, to let go of what is not needed at rest.
func (t *trimmer) after(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tidy = f
}

func (t *trimmer) stop() {
	defer t.gc.tune(t.bursts)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	for _, timer := range []*time.Timer{t.timer, t.later} {
		if timer != nil {
			timer.Stop()
		}
	}
}
