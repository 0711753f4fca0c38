package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/sim"
)

var start = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// grown is the fork of a cluster with n simulated nodes in which the manifest was applied and all came to rest.
func grown(t testing.TB, n int, manifest string) *Fork {
	t.Helper()
	return grownAt(t, &Fork{At: start, Version: "v1.37.0", Server: "test"}, n, manifest)
}

func grownAt(t testing.TB, base *Fork, n int, manifest string) *Fork {
	t.Helper()
	docs, err := ReadManifest(strings.NewReader(manifest))
	if err != nil {
		t.Fatal(err)
	}
	var out *Fork
	if err := inWorld(t, base, false, func(ctx context.Context, w *world) (err error) {
		out, err = populate(ctx, t, w, base, n, docs)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// populate makes n nodes in three zones and applies a manifest, and lets all come to rest.
func populate(ctx context.Context, t testing.TB, w *world, base *Fork, n int, docs []Document) (*Fork, error) {
	if err := sim.Nodes(ctx, w.admin(), n); err != nil {
		return nil, err
	}
	a := &author{w: w, end: time.Now().Add(time.Hour)}
	for i := range n {
		k, node, err := a.find(Target{Kind: "node", Name: fmt.Sprint("sim-", i)})
		if err != nil {
			return nil, err
		}
		zone := fieldTree{"metadata": fieldTree{"labels": fieldTree{"topology.kubernetes.io/zone": fmt.Sprint("z", i%3)}}}
		if err := a.patch(ctx, k, node, types.MergePatchType, "", zone); err != nil {
			return nil, err
		}
	}
	if err := w.pass(time.Now().Add(20*time.Second), func() bool { return false }); err != nil {
		return nil, err
	}
	if err := Apply(docs, "default").make(ctx, a); err != nil {
		return nil, err
	}
	if len(a.refused) > 0 {
		t.Errorf("refused: %v", a.refused)
	}
	err := w.pass(a.end, (&calm{w: w, horizon: a.end}).reached)
	return export(w, base), err
}

// inWorld runs f in a world of its own.
func inWorld(t testing.TB, base *Fork, free bool, f func(ctx context.Context, w *world) error) error {
	t.Helper()
	s, err := base.grow()
	if err != nil {
		return err
	}
	return simulate(base.At, func() error {
		ctx, stop := context.WithCancel(context.Background())
		var order *turns // made here: its channels belong to the bubble
		if !free {
			order = newTurns(1)
		}
		w, err := newWorld(ctx, s, 1, order)
		if err == nil {
			err = f(ctx, w)
		}
		stop()
		if w != nil {
			w.wg.Wait()
		}
		return err
	})
}

// export is the fork of a world.
func export(w *world, base *Fork) *Fork {
	f := &Fork{At: time.Now().UTC().Truncate(time.Second), Version: base.Version, Server: base.Server}
	snap := w.view.Snapshot()
	for _, k := range w.set.All() {
		if k.Info().Virtual || k == resource.Kind(kinds.Events) || k == resource.Kind(kinds.Leases) {
			continue
		}
		for obj := range snap.Each(k, "") {
			f.objects = append(f.objects, item{k, obj})
		}
	}
	return f
}

const web = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {sim.kloop.dev/ready: 10s}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: c, image: "a:1", resources: {requests: {cpu: "2"}}}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 3, selector: {matchLabels: {app: web}}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
`

func run(t testing.TB, f *Fork, c Change) *Report {
	t.Helper()
	r, err := Run(t.Context(), f, c, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func text(t testing.TB, r *Report) string {
	t.Helper()
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The same fork and change give the same answer, byte for byte.
func TestDeterministic(t *testing.T) {
	f := grown(t, 4, web)
	want := text(t, run(t, f, Drain("sim-0")))
	for i := range 20 {
		if got := text(t, run(t, f, Drain("sim-0"))); got != want {
			t.Fatalf("run %d:\n%s\nwant\n%s", i, got, want)
		}
	}
}
