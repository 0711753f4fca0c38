package cli

import (
	"os"
	"runtime"
	"sync"
)

// headroom is by how much more than the runtime has it the heap may grow in a burst before it is collected. A small heap would be
// collected many times a second, and that is much of what a write costs. With what stacks take it is about 32 MiB.
const headroom = 28 << 20

// ownPercent is the runtime's own GOGC: the heap may grow by as much as is in use.
const ownPercent = 100

// gcPace sets how often the heap is collected, unless the variable GOGC of the environment says it.
type gcPace struct {
	set func(percent int) int // debug.SetGCPercent; nil: nothing is set

	mu  sync.Mutex
	now int // that was set; 0: nothing was
}

// tune sets the pace for a burst, or for rest. To set it stops the world for a moment, so it is only done where it makes a difference.
func (p *gcPace) tune(bursts func() bool) {
	if p.set == nil || os.Getenv("GOGC") != "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now, percent := max(p.now, ownPercent), ownPercent
	if bursts() {
		percent = roomy(inUse(now))
	}
	if differs := max(percent-now, now-percent); differs > now/8 || differs > 0 && percent == ownPercent {
		p.now = percent
		p.set(percent)
	}
}

// roomy is the GOGC with which a heap, of which so many bytes are in use, may grow by headroom more.
func roomy(inUse uint64) int { return ownPercent + int(ownPercent*headroom/max(inUse, headroom/8)) }

// inUse says about how much of the heap the last collection found so: its next size follows from that and the pace.
func inUse(percent int) uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.NextGC / uint64(100+percent) * 100
}
