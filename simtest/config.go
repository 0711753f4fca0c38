// Package simtest runs an operator's own controller-runtime manager against a whole kloop in one process and in simulated time,
// under seeded faults, and judges how it ends.
//
// Everything of a run lives in one testing/synctest bubble: the API server, kloop's loops, simulated nodes,
// the manager with its caches, and
// the user. A seed chooses faults and the requests that they hit, out of those that a run without faults made. See docs/testing.md.
package simtest

import (
	"context"
	"flag"
	"io/fs"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
)

// Config says what is tested and how it is judged. Start and Program are required.
type Config struct {
	// Start builds a manager with everything that belongs to it and runs it until ctx ends, as main does. It is called once for each life of
	// the operator: what it builds must be new.
	Start func(ctx context.Context, w *World) error

	// Program does what a user does. It is called once in each run and must do the same each time.
	Program func(u *User)

	// Beside runs from before the first Start to the end of the run, and must return when its ctx ends: agents that an operator has
	// elsewhere, which outlive its crashes. No fault hits what it asks for. Nil: nothing does.
	Beside func(ctx context.Context, w *World)

	Scheme  *runtime.Scheme     // of the user's client and World.Options; nil: client-go's
	CRDs    fs.FS               // every .yaml and .yml file in it is applied first; nil: none
	Objects []ctrlclient.Object // created before the operator starts
	Nodes   int                 // simulated nodes; at most 100

	Faults []Kind // which kinds of faults there are; nil: All
	Seeds  int    // how many seeds a test runs; 0: 100. The flag -simtest.seeds is stronger
	Most   int    // faults of one seed, at most; 0: 4

	// Keep lists resources, in the plural, that hold data: they must not be deleted more often than without faults.
	// Nil: persistentvolumeclaims.
	Keep []string

	// Ignore excludes an object from the comparison of ends. Nil: none is. Events, leases, nodes and addresses never count.
	Ignore func(obj *unstructured.Unstructured) bool

	// Always is asked after every change and says what is wrong; it must be quick and must not call the cluster. Nil: nothing is asked.
	Always func(s State) error

	Quiet time.Duration // without a write this long, things have settled; 0: 20 s. More for an operator that polls less often
	Flaps int           // how often an object may return to what it was before, beyond the calm run; 0: 10

	known meta.RESTMapper // what the server has in all runs, without definitions; nil until the first one
}

var (
	seedFlag  = flag.Uint64("simtest.seed", 0, "run this seed alone")
	seedsFlag = flag.Int("simtest.seeds", 0, "how many seeds each simulated test runs; 0: as many as it says")
	firstFlag = flag.Uint64("simtest.first", 1, "the first of the seeds that are run")
	loudFlag  = flag.Bool("simtest.v", false, "print how many seeds have passed, and with -simtest.seed the requests of the run")
)

// longest bounds what Program and each of its waits may take, in simulated time.
const longest = 30 * time.Minute

func (c *Config) fill() {
	if c.Scheme == nil {
		c.Scheme = scheme.Scheme
	}
	if c.Faults == nil {
		c.Faults = All
	}
	if c.Keep == nil {
		c.Keep = []string{"persistentvolumeclaims"}
	}
	c.Seeds, c.Most, c.Flaps, c.Quiet = or(c.Seeds, 100), or(c.Most, 4), or(c.Flaps, 10), or(c.Quiet, 20*time.Second)
	c.Nodes = min(c.Nodes, 100)
	if *seedsFlag > 0 {
		c.Seeds = *seedsFlag
	}
}

// Managed returns a Start for a manager with the usual options and whatever setUp adds to it, as main does.
func Managed(setUp func(ctrl.Manager) error) func(context.Context, *World) error {
	return func(ctx context.Context, w *World) error {
		mgr, err := ctrl.NewManager(w.Rest(), w.Options(ctrl.Options{}))
		if err == nil {
			err = setUp(mgr)
		}
		if err != nil {
			return err
		}
		return mgr.Start(ctx)
	}
}

func or[T int | time.Duration](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}

// Run tests an operator: once without faults, then once for each seed. The first seed that fails is shrunk and reported.
func Run(t *testing.T, c Config) {
	t.Helper()
	calm, found := search(t, c)
	switch {
	case len(calm.wrong) > 0:
		t.Fatalf("without any fault:\n%s", report(calm, nil))
	case found != nil:
		t.Fatal(found)
	}
}

// Find is Run for a test that expects a fault to be found: it returns the report of the first seed that fails, nil if none does. A run
// that goes wrong without faults fails the test.
func Find(t *testing.T, c Config) *Failure {
	t.Helper()
	calm, found := search(t, c)
	if len(calm.wrong) > 0 {
		t.Fatalf("without any fault:\n%s", report(calm, nil))
	}
	return found
}
