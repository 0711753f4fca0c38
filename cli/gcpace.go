package cli

import (
	"os"
	"runtime/metrics"
	"sync"
)

// headroom is by how much more than the runtime has it the heap may grow in a burst before it is collected. A small heap would be
// collected many times a second, and that is much of what a write costs. With what stacks take it is about 32 MiB.
const headroom = 28 << 20

// ownPercent is the runtime's own GOGC: the heap may grow by as much as is in use.
const ownPercent = 100

// startPercent is the GOGC of a start, when nearly all that is made stays: the heap may grow to some 30 MiB before it is collected first.
// A sixth of a start's processor time was collections that found next to nothing.
const startPercent = 800

// gcPace is a pacer for GOGC: it sets how often the heap is collected, unless the variable GOGC of the environment says it.
type gcPace struct {
	set func(percent int) int // debug.SetGCPercent; nil: nothing is set

	mu  sync.Mutex
	now int // that was set; 0: nothing was
}

// fixed says that the pace is not set here.
func (p *gcPace) fixed() bool { return p.set == nil || os.Getenv("GOGC") != "" }

// begin sets the pace for a start. The first collection ends it.
func (p *gcPace) begin() {
	if p.fixed() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = startPercent
	p.set(startPercent)
}

// tune sets the pace for a burst, or for rest. To set it stops the world for a moment, so it is only done where it makes a difference.
func (p *gcPace) tune(bursts func() bool) {
	if p.fixed() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now, percent := max(p.now, ownPercent), ownPercent
	if bursts() {
		percent = roomy(inUse())
	}
	if differs := max(percent-now, now-percent); differs > now/8 || differs > 0 && percent == ownPercent {
		p.now = percent
		p.set(percent)
	}
}

// roomy is the GOGC with which a heap, of which so many bytes are in use, may grow by headroom more.
func roomy(inUse uint64) int { return ownPercent + int(ownPercent*headroom/max(inUse, headroom/8)) }

// inUse counts the bytes of the heap that the last collection found in use. Unlike runtime.ReadMemStats it does not stop the world.
func inUse() uint64 {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return live[0].Value.Uint64()
}
