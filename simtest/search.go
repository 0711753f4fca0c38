package simtest

import (
	"fmt"
	"io"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"
)

// A Failure is a seed whose run ended otherwise than the calm one.
type Failure struct {
	Seed   uint64
	Seeds  int      // how many were tried, this one included
	Faults []Fault  // the fewest that were found to do it
	Wrong  []string // what is wrong
	text   string
}

// Error implements error: it is the whole report.
func (f *Failure) Error() string { return f.text }

var quiet = sync.OnceFunc(func() {
	ctrl.SetLogger(ctrl.Log.WithSink(crlog.NullLogSink{}))
	utilruntime.ErrorHandlers = nil // they log, and pause by a clock that must never go back, as it does from run to run
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)                                                               // faults on purpose are no news
	_ = os.Setenv("GODEBUG", strings.TrimPrefix(os.Getenv("GODEBUG")+",randseednop=0", ",")) // see play
})

// garbage lets a heap grow by so many percent between collections: with Go's own 100 they take a sixth of the time.
const garbage = 400

// progress counts the seeds between two lines of -simtest.v.
const progress = 50

// search runs without faults, then the seeds until one fails.
func search(t *testing.T, c Config) (calm outcome, found *Failure) {
	t.Helper()
	quiet()
	c.fill()
	defer debug.SetGCPercent(debug.SetGCPercent(garbage)) // a run is over soon, and all of it goes at once
	calm = c.play(t, 0, nil)
	if len(calm.wrong) > 0 {
		return calm, nil
	}
	first := max(*firstFlag, 1)
	last := first + uint64(c.Seeds) - 1
	if *seedFlag > 0 {
		first, last = *seedFlag, *seedFlag
	}
	for seed := first; seed <= last; seed++ {
		faults := roll(seed, c.Faults, c.Most, calm.places, calm.changes)
		out := c.play(t, seed, faults)
		if *loudFlag && first == last {
			t.Logf("seed %d, %v:\n%s", seed, faults, strings.Join(out.asked, "\n"))
		}
		if wrong := c.compare(calm, out); len(wrong) > 0 {
			return calm, c.shrink(t, calm, seed, int(seed-first)+1, faults, out)
		}
		if n := seed - first + 1; *loudFlag && n%progress == 0 {
			t.Logf("%d of %d seeds passed, %d to %d", n, last-first+1, first, seed)
		}
	}
	return calm, nil
}

// compare judges a run by the calm one.
func (c *Config) compare(calm, out outcome) []string {
	wrong := slices.Clone(out.wrong)
	for _, k := range c.Keep {
		if n, m := out.deleted[k], calm.deleted[k]; n > m {
			wrong = append(wrong, fmt.Sprintf("%s were deleted %d times, %d times in the calm run", k, n, m))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(out.flaps)) {
		if n, m := out.flaps[name], calm.flaps[name]; n > m+c.Flaps {
			wrong = append(wrong, fmt.Sprintf("%s returned %d times to what it was before, %d times in the calm run", name, n, m))
		}
	}
	if d := difference(calm.end, out.end); len(d) > 0 {
		wrong = append(wrong, "it ends otherwise (- calm run, + this one):\n"+strings.Join(d, "\n"))
	}
	return wrong
}

// shrink leaves out faults for as long as it still fails, and checks whether it fails again at all.
func (c *Config) shrink(t *testing.T, calm outcome, seed uint64, tried int, faults []Fault, out outcome) *Failure {
	f := &Failure{Seed: seed, Seeds: tried, Faults: out.hit, Wrong: c.compare(calm, out)}
	again := c.play(t, seed, faults)
	note := fmt.Sprintf("The same faults again fail again, in the same %d turns.", len(out.turns))
	fails := len(c.compare(calm, again)) > 0
	if same, n := out.sameAs(again); !same || !fails {
		note = fmt.Sprintf("The same faults again: fails again: %t. %d turns are the same, then the order differs.", fails, n)
	}
	for i := 0; i < len(f.Faults) && len(f.Faults) > 1; {
		fewer := slices.Delete(slices.Clone(f.Faults), i, i+1)
		less := c.play(t, seed, fewer)
		if wrong := c.compare(calm, less); len(wrong) > 0 {
			f.Faults, f.Wrong, out = fewer, wrong, less
			continue
		}
		i++
	}
	f.text = fmt.Sprintf("seed %d fails (-simtest.seed=%d repeats it). %s\n%s", seed, seed, note, report(out, f))
	return f
}

// report says what went wrong and because of what.
func report(out outcome, f *Failure) string {
	var b strings.Builder
	wrong := out.wrong
	if f != nil {
		wrong = f.Wrong
		for _, x := range f.Faults {
			fmt.Fprintf(&b, "fault: %s\n", x)
		}
	}
	for _, s := range wrong {
		fmt.Fprintf(&b, "wrong: %s\n", s)
	}
	return b.String()
}
