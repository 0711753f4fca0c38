package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// foreign is the type of a condition that no loop of a cluster knows.
const foreign = "example.com/Foreign"

// A keeper is a loop of somebody else, which wants its condition in the status of every object that can have one. It says it again when it
// is gone: whoever takes it away fights with it.
type keeper struct {
	w     *world
	mu    sync.Mutex
	wrote map[string][]string // objects, and how their statuses were each time
	owed  map[string]int      // how often others than loops took it away
}

// keep starts one, for as long as the world lasts.
func (w *world) keep() *keeper {
	k := &keeper{w: w, wrote: map[string][]string{}, owed: map[string]int{}}
	w.keeper = k
	l := &loop.Controller[resource.Object]{Name: "keeper", Writes: loop.Anything, Reconcile: k.reconcile}
	w.wg.Go(func() {
		if err := l.Run(w.ctx, loop.Env{Client: w.Local, Log: quiet}); err != nil {
			w.t.Error(err)
		}
	})
	return k
}

func (k *keeper) reconcile(ctx context.Context, c *loop.Ctx, obj resource.Object) (time.Duration, error) {
	kind, ok := k.w.Set.Kind(obj.GetObjectKind().GroupVersionKind())
	if !ok || !hasConditions(obj) || !slices.ContainsFunc(kind.Info().Subs, isStatus) {
		return 0, nil
	}
	m := generic(k.w.t, kind, obj)
	list := conditionsOf(m)
	if slices.ContainsFunc(list, func(c any) bool { return c.(map[string]any)["type"] == foreign }) {
		return 0, nil
	}
	list = append(list, map[string]any{"type": foreign, "status": "True", "reason": "Foreign", "message": "of others",
		"lastTransitionTime": "2000-01-01T00:00:00Z"})
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": obj.GetResourceVersion()},
		"status": map[string]any{"conditions": list}})
	if err != nil {
		return 0, err
	}
	k.w.meter.add("keeper", "patch", kind.Info().GR().String()+" "+obj.GetNamespace()+"/"+obj.GetName())
	_, err = c.Client().Patch(ctx, kind, obj.GetNamespace(), obj.GetName(),
		client.Patch{Type: types.MergePatchType, Data: data, Sub: "status"})
	if err == nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		key := keptAs(kind, obj)
		k.wrote[key] = append(k.wrote[key], fmt.Sprint(m["status"]))
	}
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return 0, err
}

// check demands that nobody took the condition away, and begins anew.
func (k *keeper) check(t *testing.T, when string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for what, was := range k.wrote {
		if n := len(was) - 1; n > k.owed[what] {
			t.Errorf("%s: %s lost the condition of others %d times; its status was then %s", when, what, n-k.owed[what],
				strings.Join(was[1:], "\n"))
		}
	}
	t.Logf("%s: %d objects have conditions of others", when, len(k.wrote))
	for what, was := range k.wrote {
		k.wrote[what] = was[:1]
	}
	k.owed = map[string]int{}
}

// owe notes that the test itself takes the conditions of an object away.
func (k *keeper) owe(kind resource.Kind, obj resource.Object) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.owed[keptAs(kind, obj)]++
}

func keptAs(k resource.Kind, obj resource.Object) string {
	return fmt.Sprintf("%s %s/%s %s", k.Info().GR(), obj.GetNamespace(), obj.GetName(), obj.GetUID())
}

// hasConditions says that objects of this type have conditions in their status.
func hasConditions(obj resource.Object) bool {
	v := reflect.Indirect(reflect.ValueOf(obj))
	if v.Kind() != reflect.Struct {
		return false
	}
	status := v.FieldByName("Status")
	return status.Kind() == reflect.Struct && status.FieldByName("Conditions").IsValid()
}
