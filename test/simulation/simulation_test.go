package simulation

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

var (
	seeds       = flag.Int("seeds", 200, "how many seeds TestSeeds runs")
	first       = flag.Uint64("seed", 0, "the first seed; with -seeds 1 the only one")
	size        = flag.Int("size", 18, "steps of the users' workload")
	verbose     = flag.Bool("verbose", false, "print all that happens")
	verboseCalm = flag.Bool("verbose-calm", false, "print all that happens in the run without faults")
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // faults on purpose are no news
	makeCert()
	m.Run()
}

// An outcome is how a run ended.
type result struct {
	end   string
	errs  []error
	early bool // something was wrong before the end
	trace uint64
	steps int
	rev   int64
	took  time.Duration // of cluster time
}

// Cluster time that a run may take.
const (
	programLimit = 2 * time.Hour
	settleLimit  = 25 * time.Minute // lost pods are given up after five minutes, lost changes noticed after ten
)

// runSeed plays the seed's workload, with the seed's faults or none.
func runSeed(t *testing.T, seed uint64, faulty bool, mutation *mutation, log io.Writer) (out result) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		w := newWorld(ctx, seed, log, mutation)
		defer func() {
			stop()
			w.close()
			w.all.Wait()
			w.mem.Close()
		}()
		began := time.Now()
		w.prompt, w.exact = true, true
		if faulty {
			w.faults = newFaults(w.steps)
			w.prompt = w.faults.maxLag == 0 && w.faults.cuts == 0 && w.faults.late == 0 && w.faults.slow == 0
			w.exact = w.prompt && w.faults.steps == 0 && w.faults.part == 0
			w.faults.schedule(w)
			w.steps.note("faults: %+v", *w.faults)
		}
		for _, l := range w.entries() {
			w.start(l.LoopName())
		}
		var failed error
		played := make(chan struct{})
		w.all.Go(func() {
			defer close(played)
			failed = newWorkload(seed, *size).play(&user{w.client("user", nil), ctx})
		})
		over := func() bool {
			select {
			case <-played:
				return true
			default:
				return false
			}
		}
		if !w.run(programLimit, over) {
			w.fail("the workload did not end")
		}
		if failed != nil {
			w.fail("user: %v", failed)
		}
		if faulty {
			w.run(w.steps.span(0, 6*time.Minute), func() bool { return false }) // it goes on for a while
		}
		w.heal()
		w.run(settleLimit, func() bool { return false })
		sweep(ctx, w)
		early := len(w.errs) > 0
		out = result{early: early, end: endState(w.set, w.admin().Read()), steps: w.steps.taken, rev: w.view.Revision(), took: time.Since(began)}
		for _, s := range leftovers(w.set, w.admin().Read()) {
			w.fail("%s", s)
		}
		w.checks.restless()
		out.errs = w.errs
		w.steps.note("end\n%s", out.end)
		out.trace = w.steps.trace.sum.Sum64()
	})
	return out
}

// sweep removes the pods and ReplicaSets that were left behind by deletions with Orphan, and lets the others settle again.
// How many those are is a matter of when the deletion came, and not of how the loops converge; what they keep others from is.
func sweep(ctx context.Context, w *world) {
	swept := make(chan struct{})
	w.all.Go(func() {
		defer close(swept)
		u := &user{w.client("sweeper", nil), ctx}
		for _, k := range []resource.Kind{kinds.ReplicaSets, kinds.Pods} {
			for obj := range u.Read().Each(k, "") {
				if metav1.GetControllerOfNoCopy(obj) != nil {
					continue
				}
				if err := u.drop(k, obj.GetNamespace(), obj.GetName(), metav1.DeletePropagationBackground); err != nil {
					w.fail("sweep: %v", err)
				}
			}
		}
	})
	if !w.run(settleLimit, func() bool {
		select {
		case <-swept:
			return true
		default:
			return false
		}
	}) {
		w.fail("the sweep did not end")
	}
	w.run(settleLimit, func() bool { return false })
}

// regressions are seeds beyond the usual ones that have found something: a scheduler that took a conflict for success, ends
// that asked a stateful set, and a rollout that was cut short, for more than is promised, deletions that took one too, a
// user who had no patience with a definition of which the news was lost, pods that went before their claims were told, and a
// floor that moved meanwhile.
var regressions = []uint64{265, 314, 404, 413, 1305, 1433, 1606, 1624}

// TestSeeds runs seeds with their faults, and compares where they end with where they end without.
func TestSeeds(t *testing.T) {
	list := regressions
	if *seeds == 1 {
		list = nil
	}
	for i := range *seeds {
		list = append(list, *first+uint64(i))
	}
	for _, seed := range list {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			var log io.Writer
			if *verbose {
				log = os.Stdout
			}
			checkSeed(t, seed, log)
		})
	}
}

func checkSeed(t *testing.T, seed uint64, log io.Writer) {
	again := fmt.Sprintf("go test ./test/simulation -run TestSeeds -seed %d -seeds 1 -size %d -verbose", seed, *size)
	var still io.Writer
	if *verboseCalm {
		still = os.Stdout
	}
	calm := runSeed(t, seed, false, nil, still)
	for _, err := range calm.errs {
		t.Errorf("without faults: %v", err)
	}
	storm := runSeed(t, seed, true, nil, log)
	for _, err := range storm.errs {
		t.Error(err)
	}
	if calm.end != storm.end {
		t.Errorf("the end differs:\n%s", diff(calm.end, storm.end))
	}
	if t.Failed() {
		t.Logf("seed %d; to see it again: %s", seed, again)
	}
	t.Logf("calm: %d steps, %d revisions; storm: %d steps, %d revisions, %s", calm.steps, calm.rev, storm.steps, storm.rev, storm.took)
}

func diff(a, b string) string {
	var out strings.Builder
	has := func(list []string) map[string]bool {
		m := map[string]bool{}
		for _, l := range list {
			m[l] = true
		}
		return m
	}
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	inX, inY := has(x), has(y)
	for _, l := range x {
		if !inY[l] {
			fmt.Fprintln(&out, "- "+l)
		}
	}
	for _, l := range y {
		if !inX[l] {
			fmt.Fprintln(&out, "+ "+l)
		}
	}
	return out.String()
}

// TestReplay runs a seed twice: all that happens is the same, to the byte.
func TestReplay(t *testing.T) {
	for seed := range uint64(6) {
		var a, b bytes.Buffer
		x, y := runSeed(t, seed, true, nil, &a), runSeed(t, seed, true, nil, &b)
		if x.trace != y.trace {
			t.Errorf("seed %d: %s", seed, firstDifference(a.String(), b.String()))
		}
	}
}

func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("line %d of %d:\n%s\n%s\nafter\n%s", i, len(x), x[i], y[i], strings.Join(x[max(i-5, 0):i], "\n"))
		}
	}
	return fmt.Sprintf("%d and %d lines", len(x), len(y))
}
