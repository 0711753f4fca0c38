package cli

import (
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestTrim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var freed, tidied atomic.Int64
		tr := &trimmer{free: func() { freed.Add(1) }}
		tr.after(func() { tidied.Store(freed.Load() + 1) })
		collect := func(n int, pause time.Duration) {
			for range n {
				tr.cycle(time.Now())
				time.Sleep(pause)
			}
			synctest.Wait()
		}
		if collect(20, 2*time.Minute); freed.Load() != 0 {
			t.Errorf("at rest: given back %d times", freed.Load())
		}
		if collect(20, 3*time.Second); freed.Load() != 0 {
			t.Errorf("within a burst: given back %d times", freed.Load())
		}
		rest := func(d time.Duration) { time.Sleep(d); synctest.Wait() }
		if rest(calm); freed.Load() != 1 || tidied.Load() != 1 {
			t.Errorf("after it: %d times, tidied before number %d", freed.Load(), tidied.Load())
		}
		collect(1, time.Minute)
		if collect(burstCycles, time.Minute); freed.Load() != 1 {
			t.Errorf("at rest again: %d times", freed.Load())
		}
		for range 3 {
			tr.soon()
			time.Sleep(relief / 2)
		}
		if synctest.Wait(); freed.Load() != 1 {
			t.Errorf("while more is let go: %d times", freed.Load())
		}
		if rest(relief); freed.Load() != 2 {
			t.Errorf("when nothing more is: %d times", freed.Load())
		}
		tr.now()
		if rest(time.Second); freed.Load() != 3 {
			t.Errorf("at once: %d times", freed.Load())
		}
		tr.started()
		if rest(calm - time.Second); freed.Load() != 3 {
			t.Errorf("while it starts: %d times", freed.Load())
		}
		if rest(time.Second); freed.Load() != 4 {
			t.Errorf("when it has: %d times", freed.Load())
		}
		collect(burstCycles, time.Second)
		tr.stop()
		tr.soon()
		tr.now()
		tr.started()
		if rest(time.Minute); freed.Load() != 4 || tr.cycle(time.Now()) {
			t.Errorf("stopped, and goes on: %d times", freed.Load())
		}
	})
}

// The collector tells of itself, again and again.
func TestTrimWatches(t *testing.T) {
	tr := &trimmer{free: func() {}}
	defer tr.stop()
	tr.watch()
	seen := func() int {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		return tr.cycles
	}
	for deadline := time.Now().Add(10 * time.Minute); seen() < 2; runtime.Gosched() {
		if runtime.GC(); time.Now().After(deadline) {
			t.Fatalf("%d collections seen", seen())
		}
	}
}

// In a burst the heap has more room, and in a start; at rest, and when the process ends, it has not.
func TestPace(t *testing.T) {
	t.Setenv("GOGC", "")
	synctest.Test(t, func(t *testing.T) {
		var percent atomic.Int64
		tr := &trimmer{free: func() {}}
		tr.gc.set = func(p int) int { return int(percent.Swap(int64(p))) }
		burst := func() {
			for range burstCycles {
				tr.cycle(time.Now())
				time.Sleep(time.Second)
			}
		}
		if tr.cycle(time.Now()); percent.Load() != 0 {
			t.Errorf("one collection: %d", percent.Load())
		}
		if tr.gc.begin(); percent.Load() != startPercent {
			t.Errorf("a start: %d", percent.Load())
		}
		if tr.cycle(time.Now()); percent.Load() != ownPercent {
			t.Errorf("the first collection of a start: %d", percent.Load())
		}
		if burst(); percent.Load() <= ownPercent {
			t.Errorf("a burst: %d", percent.Load())
		}
		time.Sleep(calm)
		if synctest.Wait(); percent.Load() != ownPercent {
			t.Errorf("when it is over: %d", percent.Load())
		}
		burst()
		if tr.stop(); percent.Load() != ownPercent {
			t.Errorf("at the end: %d", percent.Load())
		}
	})
	for live, most := range map[uint64]int{0: 900, 28 << 20: 200, 56 << 20: 150, 280 << 20: 110} {
		if got := roomy(live); got != most {
			t.Errorf("%d bytes in use: %d, want %d", live, got, most)
		}
	}
}
