package server_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/internal/testcluster"
)

// pair starts two servers on one store, each with a view of its own.
func pair(t *testing.T) (a, b *world) {
	a = start(t, func(c *testcluster.Config) { c.Sole = false })
	b = start(t, func(c *testcluster.Config) { c.Sole, c.Store = false, a.store })
	return a, b
}

// An action is one operation on the one object of the test: its value is data["v"]; "" means there is none.
type action struct {
	kind  string // read, write, delete
	value string
}

// register is what a linearizable object does.
var register = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, in, out any) (bool, any) {
		a, got := in.(action), out.(string)
		switch a.kind {
		case "read":
			return got == state.(string), state
		case "write":
			return got == "" == (state.(string) == ""), next(state.(string) != "", a.value, state)
		case "delete":
			return got == "" == (state.(string) == ""), ""
		case "create":
			return got == "" == (state.(string) != ""), next(state.(string) == "", a.value, state)
		}
		return false, state
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprint(in, " → ", out) },
}

func next(is bool, value string, state any) any {
	if is {
		return value
	}
	return state
}

// do performs an action. The answer is the value read, or "" for a write that found nothing (a create:
// something) and "ok" for one that was done.
func (w *world) do(a action) string {
	var err error
	switch a.kind {
	case "read":
		e, err := w.Get(w.t.Context(), w.ask(configMaps, "x"), nil)
		if err == nil {
			return e.Object.(*corev1.ConfigMap).Data["v"]
		}
		if !apierrors.IsNotFound(err) {
			w.t.Errorf("read: %v", err)
		}
		return ""
	case "write":
		_, _, err = w.Patch(w.t.Context(), w.ask(configMaps, "x"), types.MergePatchType, []byte(`{"data":{"v":"`+a.value+`"}}`), false)
	case "create":
		_, err = w.Create(w.t.Context(), w.ask(configMaps, ""), configMap("x", "v", a.value))
	case "delete":
		_, _, err = w.Delete(w.t.Context(), w.ask(configMaps, "x"), &metav1.DeleteOptions{})
	}
	switch {
	case err == nil:
		return "ok"
	case apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err):
		return ""
	}
	w.t.Errorf("%s: %v", a.kind, err)
	return ""
}

func TestLinearizable(t *testing.T) {
	one := start(t)
	two, three := pair(t)
	for name, doors := range map[string][]*world{"one server": {one}, "two servers": {two, three}} {
		t.Run(name, func(t *testing.T) {
			const clients, actions = 6, 60
			var mu sync.Mutex
			var history []porcupine.Operation
			var wg sync.WaitGroup
			begin := time.Now()
			for i := range clients {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(uint64(i), 1))
					for n := range actions {
						a := action{[]string{"read", "read", "write", "write", "create", "delete"}[r.IntN(6)], fmt.Sprintf("%d-%d", i, n)}
						call := time.Since(begin)
						got := doors[i%len(doors)].do(a)
						mu.Lock()
						history = append(history, porcupine.Operation{ClientId: i, Input: a, Call: int64(call), Output: got,
							Return: int64(time.Since(begin))})
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			if res := porcupine.CheckOperationsTimeout(register, history, 10*time.Minute); res != porcupine.Ok {
				t.Errorf("%s: the history of %d operations is %v", name, len(history), res)
			}
		})
	}
}

// A server whose view is far behind must still refuse, and do, what the store says.
func TestBehind(t *testing.T) {
	t.Attr("retry", "never")
	a, b := pair(t)
	create(a, configMaps, configMap("x", "v", "1"))
	if got := b.do(action{"read", ""}); got != "1" {
		t.Errorf("the other server reads %q", got)
	}
	if got := b.do(action{"write", "2"}); got != "ok" {
		t.Errorf("the other server can't write")
	}
	if _, err := a.merge(configMaps, "x", `{"data":{"w":"3"}}`); err != nil {
		t.Fatal(err)
	}
	if d := b.get(configMaps, "x").(*corev1.ConfigMap).Data; d["v"] != "2" || d["w"] != "3" {
		t.Errorf("data %v", d)
	}
	if _, _, err := b.delete(configMaps, "x", nil); err != nil {
		t.Fatal(err)
	}
	if got := a.do(action{"write", "4"}); got != "" {
		t.Errorf("wrote what is deleted: %q", got)
	}
}
