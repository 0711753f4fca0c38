package plan

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

var (
	seedCount = flag.Int("seeds", 14, "how many clusters and changes TestFidelity compares")
	tries     = flag.Int("tries", 20, "how often TestFidelity does again what came out otherwise")
	only      = flag.String("only", "", "counties: all seeds are of them")
	firstSeed = flag.Uint64("seed", 0, "the first of them")
)

// An outcome is the state that a change leads to, names that are made up aside.
type outcome struct {
	workloads map[string]string // least, end and wanted, of those that were touched
	pods      map[string]int    // by owner, phase, readiness, and whether they have a node
	gaps      []string          // objects; of several causes a gap tells one, and which depends on who was first
	stays     int               // evictions that never came through
	refused   int               // by the front door
}

func (o outcome) differences(p outcome) (list []string) {
	for _, key := range slices.Sorted(keysOfBoth(o.workloads, p.workloads)) {
		if o.workloads[key] != p.workloads[key] {
			list = append(list, fmt.Sprintf("%s: %q, predicted %q", key, o.workloads[key], p.workloads[key]))
		}
	}
	for _, key := range slices.Sorted(keysOfBoth(o.pods, p.pods)) {
		if o.pods[key] != p.pods[key] {
			list = append(list, fmt.Sprintf("%s: %d, predicted %d", key, o.pods[key], p.pods[key]))
		}
	}
	if fmt.Sprint(o.gaps) != fmt.Sprint(p.gaps) {
		list = append(list, fmt.Sprintf("gaps %q, predicted %q", o.gaps, p.gaps))
	}
	if o.stays != p.stays {
		list = append(list, fmt.Sprintf("%d evictions stay, predicted %d", o.stays, p.stays))
	}
	if o.refused != p.refused {
		list = append(list, fmt.Sprintf("%d are refused, predicted %d", o.refused, p.refused))
	}
	return list
}

func keysOfBoth[V any](a, b map[string]V) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range a {
			if !yield(k) {
				return
			}
		}
		for k := range b {
			if _, there := a[k]; !there && !yield(k) {
				return
			}
		}
	}
}

// outcomeOf sums up a world after a change.
func outcomeOf(read resource.Reader, workloads []Workload, gaps []Gap, evicted []Eviction) outcome {
	o := outcome{workloads: map[string]string{}, pods: map[string]int{}}
	for _, w := range workloads {
		o.workloads[w.Object.String()] = fmt.Sprintf("%d before, %d at least, %d of %d", w.Before, w.Least, w.After, w.Wanted)
	}
	for _, p := range resource.List(read, kinds.Pods, "") {
		if routine(read, p) != "" {
			continue // how many there are depends on the minute
		}
		owner := "itself"
		if ref := metav1.GetControllerOfNoCopy(p); ref != nil {
			owner = ref.Kind + "/" + ref.Name
		}
		o.pods[fmt.Sprintf("pods of %s, %s, ready %t, node %t, going %t", owner, p.Status.Phase, ready(p),
			p.Spec.NodeName != "", p.DeletionTimestamp != nil)]++
	}
	o.storage(read)
	for _, j := range resource.List(read, kinds.Jobs, "") {
		if routine(read, j) != "" {
			continue
		}
		end := ""
		for _, c := range j.Status.Conditions {
			if c.Status == corev1.ConditionTrue {
				end += " " + string(c.Type)
			}
		}
		o.pods["job "+j.Name+":"+end]++
	}
	for _, g := range gaps {
		name := g.Object.String()
		if g.Kind == "Pod" {
			name = "pod"
		}
		o.gaps = append(o.gaps, name)
	}
	slices.Sort(o.gaps)
	for _, e := range evicted {
		if e.Stays {
			o.stays++
		}
	}
	return o
}

// storage counts claims and volumes.
func (o outcome) storage(read resource.Reader) {
	for _, pvc := range resource.List(read, kinds.PersistentVolumeClaims, "") {
		o.pods[fmt.Sprintf("claim %s, %s of %s", pvc.Name, pvc.Status.Phase, pvc.Status.Capacity.Storage())]++
	}
	for _, pv := range resource.List(read, kinds.PersistentVolumes, "") {
		o.pods[fmt.Sprintf("volumes of %s, %s of %s", pv.Spec.StorageClassName, pv.Status.Phase, pv.Spec.Capacity.Storage())]++
	}
}

const fidelitySpan = 40 * time.Minute

// really makes the change in a cluster that goes on by itself: loops race, and nobody stops it when it seems to rest. It returns the
// fork from before the change, and the outcome.
func really(t *testing.T, n int, manifest string, c Change) (f *Fork, out outcome) {
	t.Helper()
	base := &Fork{At: start, Version: "v1.37.0", Server: "test"}
	err := inWorld(t, base, true, func(ctx context.Context, w *world) error {
		docs, err := ReadManifest(strings.NewReader(manifest))
		if err != nil {
			return err
		}
		if f, err = populate(ctx, t, w, base, n, docs); err == nil {
			out, err = watched(ctx, w, c)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return f, out
}

// watched is what a change leads to in a world that nobody stops.
func watched(ctx context.Context, w *world, c Change) (out outcome, err error) {
	before, err := w.gaps(ctx)
	if err != nil {
		return out, err
	}
	track, begun := follow(w.view.Snapshot()), time.Now()
	w.look, w.news = track.see, begun
	a := &author{w: w, end: begun.Add(fidelitySpan)}
	if err := c.make(ctx, a); err != nil {
		return out, err
	}
	if err := w.pass(a.end, func() bool { return false }); err != nil {
		return out, err
	}
	after, err := w.gaps(ctx)
	if err != nil {
		return out, err
	}
	fresh, still, _ := compareGaps(before, after)
	out = outcomeOf(w.view.Snapshot(), track.finish(w.view.Snapshot(), w.news), append(fresh, still...), a.evicted)
	out.refused = len(a.refused)
	return out, nil
}

// chance says that the cluster itself, when the same is done to it again, at times comes to what was predicted: who of several gets the
// last room is decided by who comes first.
func chance(t *testing.T, f *Fork, c Change, predicted outcome) bool {
	t.Helper()
	for range *tries {
		same := false
		if err := inWorld(t, f, true, func(ctx context.Context, w *world) error {
			if err := w.pass(time.Now().Add(20*time.Second), func() bool { return false }); err != nil {
				return err
			}
			out, err := watched(ctx, w, c)
			same = len(out.differences(predicted)) == 0
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if same {
			return true
		}
	}
	return false
}

// predicted is the outcome that a plan foresees.
func predicted(t *testing.T, f *Fork, c Change) outcome {
	t.Helper()
	var read resource.Reader
	r, err := forecast(t.Context(), f, c, Options{For: fidelitySpan}, func(w *world) { read = w.view.Snapshot() })
	if err != nil {
		t.Fatal(err)
	}
	out := outcomeOf(read, r.Workloads, append(slices.Clone(r.Gaps), r.Still...), r.Evictions)
	out.refused = len(r.Refused)
	return out
}

// A town is a cluster that a seed describes, and a change of it.
type town struct {
	nodes    int
	manifest strings.Builder
	change   Change
	sort     string // of the change, if it has a name
}

func newTown(seed uint64) *town {
	d := rand.New(rand.NewPCG(seed, 7))
	pick := func(list ...string) string { return list[d.IntN(len(list))] }
	tw := &town{nodes: 3 + d.IntN(6)}
	names := []string{"a", "b", "c"}[:1+d.IntN(3)]
	for _, name := range names {
		n := 1 + d.IntN(6)
		strategy := pick("", "strategy: {type: Recreate}", "strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}",
			"strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}")
		of := "topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: " + name + "}}"
		rule := pick("", "", "topologySpreadConstraints: [{maxSkew: 1, whenUnsatisfiable: DoNotSchedule, "+of+"}]",
			"affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{"+of+"}]}}")
		fmt.Fprintf(&tw.manifest, `
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: %[2]d
  %[3]s
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}, annotations: {sim.kloop.dev/ready: %[4]ds, sim.kloop.dev/stop: %[5]ds}}
    spec:
      %[6]s
      containers: [{name: c, image: "i:1", resources: {requests: {cpu: %[7]q}}}]
---
apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec: {selector: {app: %[1]s}, ports: [{port: 80}]}
`, name, n, strategy, 1+d.IntN(30), d.IntN(10), rule, pick("100m", "1", "2", "3"))
		if d.IntN(2) == 0 {
			fmt.Fprintf(&tw.manifest, "---\napiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: %[1]s}\n"+
				"spec: {%[2]s, selector: {matchLabels: {app: %[1]s}}}\n",
				name, pick("maxUnavailable: 1", "minAvailable: 1", "minAvailable: "+fmt.Sprint(n), "minAvailable: 50%", "maxUnavailable: 0"))
		}
	}
	if d.IntN(2) == 0 {
		tw.manifest.WriteString("---\n" + db[:strings.Index(db, "---\napiVersion: autoscaling")])
		names = append(names, "db")
	}
	tw.choose(d, names)
	return tw
}

func (tw *town) choose(d *rand.Rand, names []string) {
	name := names[d.IntN(len(names))]
	to := Target{"deployment", "default", name}
	if name == "db" {
		to.Kind = "statefulset"
	}
	node := fmt.Sprint("sim-", d.IntN(tw.nodes))
	image := SetImages(to, map[string]string{"c": "i:2"})
	tw.change = []Change{Drain(node), Drain(node), LoseNode(node), LoseZone("z1"), Scale(to, int32(d.IntN(10))),
		Scale(to, int32(20+d.IntN(40))),
		image, image, Delete(to), Delete(Target{"node", "", node})}[d.IntN(10)]
}

// What a plan says happens: in clusters and for changes that seeds describe, a plan made beforehand is compared with what the change
// leads to in the cluster itself.
func TestFidelity(t *testing.T) {
	equal, races, seeds := 0, 0, *seedCount
	if testing.Short() {
		seeds = min(seeds, 4) // of both sorts
	}
	for i := range seeds {
		seed := *firstSeed + uint64(i)
		tw := newTown(seed)
		switch {
		case *only == "counties" || seed%4 == 2:
			tw = newCounty(seed)
		case seed%4 == 1:
			tw = newCity(seed)
		case seed%4 == 3:
			tw = newVillage(seed)
		}
		f, real := really(t, tw.nodes, tw.manifest.String(), tw.change)
		foreseen := predicted(t, f, tw.change)
		diff := strings.Join(real.differences(foreseen), "\n")
		switch {
		case diff == "":
			equal++
		case chance(t, f, tw.change, foreseen):
			races++
			t.Logf("seed %d, %s %s: chance decides, and so it did:\n%s", seed, tw.sort, tw.change.Text, diff)
		default:
			t.Errorf("seed %d, %d nodes, %s %s:\n%s", seed, tw.nodes, tw.sort, tw.change.Text, diff)
		}
	}
	t.Logf("%d of %d are as predicted, and %d more when the same is done again", equal, seeds, races)
}
