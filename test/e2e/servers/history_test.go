//go:build e2e

package servers

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// An action is one operation on one of the objects under test: its value is data["v"], "" when it is not there. Values
// are written once, so an object at a value is an object at a revision.
type action struct {
	kind, key   string
	value, from string // from: what a compare-and-swap expects
}

// What actions answer beside a value.
const (
	done    = "+"       // a write that was done
	refused = "-"       // a write whose condition did not hold
	unknown = "unknown" // a write that may have been done, now or later
)

// A witness is what became of each object as the watches told it, and what of that nobody was told who did it.
type witness map[string]*fate

// A fate is an object's values, revision by revision, "" for none; it starts with none.
type fate struct {
	values   []string
	unspoken int // deletions that no answer told of
}

func (w witness) of(key string) *fate {
	if w[key] == nil {
		w[key] = &fate{values: []string{""}}
	}
	return w[key]
}

// witnessed reads the watches' events, and the answers to deletions.
func witnessed(events []told, ops []porcupine.Operation) witness {
	w := witness{}
	for _, e := range events {
		f := w.of(e.name)
		if e.typ == watch.Deleted {
			f.unspoken++
			e.value = ""
		}
		f.values = append(f.values, e.value)
	}
	for _, op := range ops {
		f := w.of(op.Input.(action).key)
		if op.Input.(action).kind == "delete" && op.Output == done {
			f.unspoken--
		}
	}
	return w
}

// objects is what linearizable objects do, each for itself: they go through the values of the witness in its order, each
// made by an action. Who knows the order can check long histories in which many ends are unknown.
func (w witness) objects() porcupine.Model {
	return porcupine.Model{
		Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
			by := map[string]int{}
			for _, op := range history {
				key := op.Input.(action).key
				i, ok := by[key]
				if !ok {
					i = len(parts)
					by[key], parts = i, append(parts, nil)
				}
				parts[i] = append(parts[i], op)
			}
			return parts
		},
		Init: func() any { return place{} },
		Step: func(state, in, out any) (bool, any) {
			return w[in.(action).key].step(state.(place), in.(action), out.(string))
		},
		DescribeOperation: func(in, out any) string { return fmt.Sprint(in, " → ", out) },
	}
}

// A place is how far an object has come.
type place struct{ at, unspoken int }

// step says whether an action may happen at a place and come to this end, and where it leads to.
func (f *fate) step(p place, a action, got string) (bool, any) {
	now, last := f.values[p.at], p.at == len(f.values)-1
	if a.kind == "get" || a.kind == "list" {
		return got == now, p
	}
	holds, makes := now != "", a.value
	switch a.kind {
	case "create":
		holds = now == ""
	case "swap":
		holds = now == a.from
	case "delete":
		makes = ""
	}
	if got == refused {
		return !holds, p
	}
	next := place{p.at + 1, p.unspoken}
	if got == unknown {
		next.unspoken++
	}
	if holds && !last && f.values[p.at+1] == makes && next.unspoken <= f.unspoken {
		return true, next
	}
	return got == unknown && last, p // not done at all is the same as tried after everything else
}

const space = "default"

// do performs an action at one server. ok is false for a read that failed: it says nothing. rev is that of a write.
func do(ctx context.Context, c *kubernetes.Clientset, a *action) (got, rev string, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	maps := c.CoreV1().ConfigMaps(space)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: a.key}, Data: map[string]string{"v": a.value}}
	var err error
	switch a.kind {
	case "get":
		cm, err = maps.Get(ctx, a.key, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return "", "", true
		}
		return cm.Data["v"], "", err == nil
	case "list":
		list, err := maps.List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", "", false
		}
		for _, i := range list.Items {
			if i.Name == a.key {
				return i.Data["v"], "", true
			}
		}
		return "", "", true
	case "create":
		cm, err = maps.Create(ctx, cm, metav1.CreateOptions{})
	case "put":
		cm, err = maps.Update(ctx, cm, metav1.UpdateOptions{})
	case "swap":
		old, err := maps.Get(ctx, a.key, metav1.GetOptions{ResourceVersion: "0"}) // what is expected may well be old
		if err != nil {
			return "", "", false
		}
		a.from = old.Data["v"]
		cm.ResourceVersion = old.ResourceVersion
		cm, err = maps.Update(ctx, cm, metav1.UpdateOptions{})
		return outcome(cm, err)
	case "delete":
		err = maps.Delete(ctx, a.key, metav1.DeleteOptions{})
	}
	return outcome(cm, err)
}

func outcome(cm *corev1.ConfigMap, err error) (got, rev string, ok bool) {
	switch {
	case err == nil:
		return done, cm.ResourceVersion, true
	case apierrors.IsNotFound(err), apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return refused, "", true
	}
	return unknown, "", true
}

// A history is what clients asked and were told.
type history struct {
	mu    sync.Mutex
	begin time.Time
	ops   []porcupine.Operation
	acked map[string]string // value written by its revision
}

// load runs clients until ctx ends, each at a server of its own.
func (h *history) load(ctx context.Context, machines []*machine) {
	h.begin, h.acked = time.Now(), map[string]string{}
	var all sync.WaitGroup
	for i := range 2 * len(machines) {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 7))
			for n := 0; ctx.Err() == nil; n++ {
				kind := []string{"get", "get", "list", "create", "put", "put", "swap", "swap", "delete"}[r.IntN(9)]
				a := &action{kind: kind, key: fmt.Sprint("k", r.IntN(4)), value: fmt.Sprintf("%d-%d", i, n)}
				h.one(ctx, i, machines[i%len(machines)].client, a)
				select { // few enough for the checker
				case <-time.After(20 * time.Millisecond):
				case <-ctx.Done():
				}
			}
		})
	}
	all.Wait()
}

func (h *history) one(ctx context.Context, client int, c *kubernetes.Clientset, a *action) {
	call := time.Since(h.begin)
	got, rev, ok := do(context.WithoutCancel(ctx), c, a)
	end := int64(time.Since(h.begin))
	if !ok {
		return
	}
	if got == unknown {
		end = math.MaxInt64
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: *a, Call: int64(call), Output: got, Return: end})
	if rev != "" && a.kind != "delete" && got == done {
		h.acked[rev] = a.value
	}
}

// check judges the history by what the watches told.
func (h *history) check(events []told) error {
	w := witnessed(events, h.ops)
	wrote := map[string]bool{}
	for _, e := range events {
		wrote[e.value] = true
	}
	var ops []porcupine.Operation
	n := 0
	for _, op := range h.ops {
		if op.Output == unknown {
			n++
			switch a := op.Input.(action); {
			case a.kind == "delete" && w[a.key].unspoken <= 0, a.kind != "delete" && !wrote[a.value]:
				continue // not done, or later than all that is judged
			case a.kind != "delete":
				op.Output = done
			}
		}
		ops = append(ops, op)
	}
	if res := porcupine.CheckOperationsTimeout(w.objects(), ops, patience); res != porcupine.Ok {
		return fmt.Errorf("the history of %d operations, %d of them with an unknown end, is %v", len(h.ops), n, res)
	}
	if len(h.acked) < 20 {
		return errors.New("hardly anything was written")
	}
	return nil
}
