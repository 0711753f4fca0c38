package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/sim"
)

// TestRest makes all that test/why knows of in one cluster, disturbs it in all ways, and demands that it comes to rest each time.
func TestRest(t *testing.T) {
	for _, tt := range []struct {
		name   string
		minor  int
		beside bool
	}{
		{"in the server's process", features.Newest, false},
		{"beside an older server", features.Oldest, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { comesToRest(t, tt.minor, tt.beside) })
		})
	}
}

func comesToRest(t *testing.T, minor int, beside bool) {
	on, err := features.New(minor, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := open(t, on)
	start := w.start
	if beside {
		start = w.startBeside
	}
	w.keep()
	start()
	if err := sim.Nodes(w.ctx, w, 8); err != nil {
		t.Fatal(err)
	}
	for _, s := range situations(t, "../why/situations.yaml") {
		w.make(s)
	}
	w.pass(20 * time.Minute)
	w.still()
	w.rests("all that was made")
	for _, d := range disturbances {
		if testing.Short() {
			break
		}
		t.Logf("%s: %d objects", d.name, w.disturb(d))
		w.rests(d.name)
	}
	w.stop()
	w.meter.reset()
	start()
	w.pass(settled)
	w.silent("loops that start anew")
	w.stop()
}

// settled is the time in which everything comes to rest: longer than the pauses after which loops try again what failed, and than the
// time in which a rollout has to get on.
const settled = 15 * time.Minute

// TestStorm has two loops write one object in turn: it is noticed, and said of whom.
func TestStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, nil)
		for _, name := range []string{"one", "other"} {
			l := &loop.Controller[*corev1.ConfigMap]{Name: name, For: kinds.ConfigMaps, Writes: []resource.Kind{kinds.ConfigMaps}}
			l.Reconcile = func(ctx context.Context, c *loop.Ctx, m *corev1.ConfigMap) (time.Duration, error) {
				if m.Data["by"] == name {
					return 0, nil
				}
				next := resource.Clone(m)
				next.Data = map[string]string{"by": name}
				return 0, c.Update(ctx, kinds.ConfigMaps, next)
			}
			w.wg.Go(func() { w.run(w.ctx, l, nil) })
		}
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m"}}
		if _, err := w.Create(w.ctx, kinds.ConfigMaps, m); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		most := strings.Join(w.meter.most(), "\n")
		if !w.meter.burnt || !strings.Contains(most, "one update configmaps ") || !strings.Contains(most, "other update configmaps ") {
			t.Errorf("a storm was not noticed: %s", most)
		}
	})
}

// pass lets simulated time pass.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
	if most := w.meter.most(); w.meter.burnt {
		w.t.Fatalf("a storm of writes: %s", strings.Join(most[:min(20, len(most))], "\n"))
	}
}

// still holds the pods as they are: those that fail are restarted for ever, and what is told of them changes with them.
func (w *world) still() {
	for _, p := range resource.List(w.Read(), kinds.Pods, "") {
		if _, err := w.patch(kinds.Pods, p, "", fmt.Sprintf(`{"metadata":{"annotations":{%q:"yes"}}}`, sim.Still)); err != nil {
			w.t.Error(err)
		}
	}
}

func (w *world) patch(k resource.Kind, obj resource.Object, sub, with string) (resource.Object, error) {
	return w.Patch(w.ctx, k, obj.GetNamespace(), obj.GetName(), client.Patch{Type: types.MergePatchType, Data: []byte(with), Sub: sub})
}

// rests lets loops do what they want to for a while, and demands that they write nothing afterwards.
func (w *world) rests(when string) {
	w.pass(settled)
	w.meter.reset()
	w.pass(settled)
	w.silent(when)
	w.keeper.check(w.t, when)
}

func (w *world) silent(when string) {
	for _, line := range w.meter.most() {
		if !slices.ContainsFunc(restless, func(part string) bool { return strings.Contains(line, part) }) {
			w.t.Errorf("%s: %s", when, line)
		}
	}
}

// restless are the writes of a cluster at rest.
var restless = []string{
	" sim-heartbeat ",      // nodes are alive
	" csr-cleaner delete ", // an hour is over
	" min-ready/",          // so it is for its pod, which then counts as available
	" cron-quota/",         // a job every night
	" sim-pod delete ",     // finalizers of others hold a pod: it is deleted once more
	// The same over HTTP, where failures are told again, too, and leaders have leases.
	"/namespaces/min-ready/", "/namespaces/cron-quota/", "somebody DELETE ", "/events", "/leases/",
}

// A disturbance is what somebody else does to an object; nil: nothing, to this one.
type disturbance struct {
	name  string
	sub   string
	takes bool // conditions away
	patch func(obj map[string]any) map[string]any
}

var disturbances = []disturbance{
	{"labels and annotations of others", "", false, func(obj map[string]any) map[string]any {
		mark := map[string]any{"example.com/foreign": "yes"}
		return map[string]any{"metadata": map[string]any{"labels": mark, "annotations": mark}}
	}},
	{"fields without owners", "", false, func(obj map[string]any) map[string]any {
		return map[string]any{"metadata": map[string]any{"managedFields": []any{map[string]any{}}}}
	}},
	{"conditions in another order", "status", false, eachCondition(func(list []any) { slices.Reverse(list) })},
	{"conditions in other words", "status", false, eachCondition(func(list []any) {
		for _, c := range list {
			c := c.(map[string]any)
			c["message"], c["reason"] = "as an older version says it", "Older"
		}
	})},
	{"conditions of other times", "status", false, eachCondition(func(list []any) {
		for _, c := range list {
			c.(map[string]any)["lastTransitionTime"] = "1999-01-01T00:00:00Z"
		}
	})},
	{"a generation that is to come", "status", false, func(obj map[string]any) map[string]any {
		if status, _ := obj["status"].(map[string]any); status["observedGeneration"] == nil {
			return nil
		}
		return map[string]any{"status": map[string]any{"observedGeneration": 1000}}
	}},
	{"no conditions", "status", true, func(obj map[string]any) map[string]any {
		if conditionsOf(obj) == nil {
			return nil
		}
		return map[string]any{"status": map[string]any{"conditions": nil}}
	}},
	{"no status", "status", true, func(obj map[string]any) map[string]any {
		status, _ := obj["status"].(map[string]any)
		for name := range status {
			status[name] = nil
		}
		return map[string]any{"status": status}
	}},
}

func eachCondition(edit func(list []any)) func(map[string]any) map[string]any {
	return func(obj map[string]any) map[string]any {
		list := conditionsOf(obj)
		if len(list) == 0 {
			return nil
		}
		edit(list)
		return map[string]any{"status": map[string]any{"conditions": list}}
	}
}

func conditionsOf(obj map[string]any) []any {
	status, _ := obj["status"].(map[string]any)
	list, _ := status["conditions"].([]any)
	return list
}

// disturb disturbs every object there is.
func (w *world) disturb(d disturbance) (n int) {
	for _, k := range w.Set.All() {
		if !slices.Contains(k.Info().Verbs, "watch") || k == resource.Kind(kinds.Events) ||
			d.sub == "status" && !slices.ContainsFunc(k.Info().Subs, isStatus) {
			continue
		}
		for obj := range w.Read().Each(k, "") {
			with := d.patch(generic(w.t, k, obj))
			if with == nil {
				continue
			}
			data, err := json.Marshal(with)
			if err != nil {
				w.t.Fatal(err)
			}
			switch out, err := w.patch(k, obj, d.sub, string(data)); {
			case err == nil:
				n++
				if d.takes {
					w.keeper.owe(k, out)
				}
			case !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err):
				w.t.Errorf("%s %s/%s: %v", k.Info().GR(), obj.GetNamespace(), obj.GetName(), err)
			}
		}
	}
	return n
}

func generic(t *testing.T, k resource.Kind, obj resource.Object) map[string]any {
	data, err := codec.MarshalJSON(resource.Opened(obj))
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]any{}
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func isStatus(s resource.SubInfo) bool { return s.Name == "status" }
