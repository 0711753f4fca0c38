package cli

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

func TestTrim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		freed, tidied := 0, 0
		tr := &trimmer{free: func() { freed++ }}
		tr.after(func() { tidied = freed + 1 })
		collect := func(n int, pause time.Duration) {
			for range n {
				tr.cycle(time.Now())
				time.Sleep(pause)
			}
			synctest.Wait()
		}
		if collect(20, 2*time.Minute); freed != 0 {
			t.Errorf("at rest: given back %d times", freed)
		}
		if collect(20, 3*time.Second); freed != 0 {
			t.Errorf("within a burst: given back %d times", freed)
		}
		if time.Sleep(calm); freed != 1 || tidied != 1 {
			t.Errorf("after it: %d times, tidied before number %d", freed, tidied)
		}
		collect(1, time.Minute)
		if collect(burstCycles, time.Minute); freed != 1 {
			t.Errorf("at rest again: %d times", freed)
		}
		collect(burstCycles, time.Second)
		tr.stop()
		if time.Sleep(time.Minute); freed != 1 || tr.cycle(time.Now()) {
			t.Errorf("stopped, and goes on: %d times", freed)
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
