// Package localstorage makes and removes the volumes of local storage on a node's disk: directories below one of its own.
//
//	reads   the own Node: orders, as package kinds/localvolume has them
//	writes  Node: its directory, the room there, and the answers to orders, as annotations
//	rule    what an order wants made is there, what it wants removed is not; nothing else is touched
//
// What is on disk is the truth: an agent that starts anew does again what has no answer yet, and each order may be done again.
// A volume is removed by giving its directory another name, which is done at once and for good; what was in it goes after that.
package localstorage

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/localvolume"
	"github.com/kloop-dev/kloop/resource"
)

// How often the free room is looked at, and after which pauses a failed order is tried again.
const (
	lookEvery  = time.Minute
	firstPause = 2 * time.Second
	longPause  = 2 * time.Minute
)

// Config says which node's disk it is.
type Config struct {
	Client client.Client // reads and patches the Node
	Node   string
	Dir    string // where volumes are kept, absolute; "": the node offers no local storage
	Log    *slog.Logger
}

// An agent answers the orders of one node.
type agent struct {
	Config
	disk   *disk
	trash  chan struct{} // pokes who empties it
	pauses map[string]pause
}

// A pause lies between two tries of an order that failed.
type pause struct {
	order localvolume.Order
	until time.Time
	next  time.Duration
}

// Run serves the node until ctx ends; ready is called when the node's earlier volumes can be used. It fails when the directory can't
// be had.
func Run(ctx context.Context, cfg Config, ready func()) error {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	a := &agent{Config: cfg, trash: make(chan struct{}, 1), pauses: map[string]pause{}}
	if cfg.Dir == "" {
		ready()
		return a.withdraw(ctx)
	}
	var err error
	if a.disk, err = openDisk(cfg.Dir); err != nil {
		return fmt.Errorf("local storage: %w", err)
	}
	a.show() // before any pod may start
	done := make(chan struct{})
	go func() { defer close(done); a.empty(ctx) }()
	defer func() { <-done }()
	ready()
	a.follow(ctx)
	return nil
}

// follow does what orders want until ctx ends.
func (a *agent) follow(ctx context.Context) {
	feed := a.Client.Feed(kinds.Nodes)
	for wait := time.Duration(0); ; {
		next, stop := context.WithTimeout(ctx, wait)
		_, err := feed.Next(next)
		stop()
		if err != nil && ctx.Err() != nil {
			return
		}
		wait = lookEvery
		if err != nil { // nothing changed: look at what is there
			a.show()
		}
		n := resource.Get(a.Client.Read(), kinds.Nodes, "", a.Node)
		if n == nil || n.DeletionTimestamp != nil {
			continue
		}
		a.announce(ctx, n)
		wait = min(wait, a.serve(ctx, n))
	}
}

// show makes the volumes that are images usable, where they are not.
func (a *agent) show() {
	if err := a.disk.showAll(); err != nil {
		a.Log.Warn("local storage: show the images of volumes", "again", lookEvery, "err", err)
	}
}

// serve does the orders that have no answer. It returns when to look again.
func (a *agent) serve(ctx context.Context, n *corev1.Node) time.Duration {
	orders, again := localvolume.Orders(n), lookEvery
	for name, o := range localvolume.SnapshotOrders(n) {
		orders[snapshotOf+name] = o
	}
	maps.DeleteFunc(a.pauses, func(name string, p pause) bool { o, ok := orders[name]; return !ok || !o.Same(p.order) })
	for _, name := range slices.Sorted(maps.Keys(orders)) {
		o := orders[name]
		if o.Done || ctx.Err() != nil {
			continue
		}
		if left := time.Until(a.pauses[name].until); left > 0 {
			again = min(again, left)
			continue
		}
		answer := o
		if err := a.do(ctx, name, &answer); err != nil {
			answer.Failed = err.Error()
			a.Log.Warn("local storage", "volume", name, "do", o.Do, "err", err)
			p := pause{order: o, next: min(max(a.pauses[name].next*2, firstPause), longPause)}
			p.until = time.Now().Add(p.next)
			a.pauses[name], again = p, min(again, p.next)
		} else {
			answer.Done, answer.Failed = true, ""
			delete(a.pauses, name)
		}
		if answer == o {
			continue
		}
		if err := a.answer(ctx, n, name, answer); err != nil && ctx.Err() == nil {
			a.Log.Warn("answer an order of local storage", "volume", name, "err", err)
			again = min(again, firstPause)
		}
	}
	return again
}

// do does what an order wants, or finds it done. What there is to tell besides goes into its answer.
func (a *agent) do(ctx context.Context, name string, answer *localvolume.Order) error {
	o := *answer
	if name, ok := strings.CutPrefix(name, snapshotOf); ok {
		return a.doSnapshot(ctx, name, answer)
	}
	if !localvolume.Belongs(o.Dir, name) {
		return fmt.Errorf("%q is not a directory of this volume", o.Dir)
	}
	switch o.Do {
	case localvolume.Make:
		return a.disk.make(ctx, o)
	case localvolume.Grow:
		if !localvolume.Image(o.Form) {
			return nil // a directory has no size
		}
		return a.disk.growImage(ctx, o)
	case localvolume.Remove:
		if err := a.disk.remove(o); err != nil {
			return err
		}
		a.sweep()
		return nil
	}
	return fmt.Errorf("this agent knows no order %q: it is older than the server", o.Do)
}

// sweep has what was removed emptied now.
func (a *agent) sweep() {
	select {
	case a.trash <- struct{}{}:
	default:
	}
}

// answer writes the answer unless the order has changed: then that one has none yet.
func (a *agent) answer(ctx context.Context, n *corev1.Node, name string, o localvolume.Order) error {
	key := localvolume.OrderPrefix + name
	if name, ok := strings.CutPrefix(name, snapshotOf); ok {
		key = localvolume.SnapshotPrefix + name
	}
	path := "/metadata/annotations/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
	data, err := json.Marshal([]map[string]string{
		{"op": "test", "path": path, "value": n.Annotations[key]},
		{"op": "replace", "path": path, "value": o.String()}})
	if err != nil {
		return err
	}
	_, err = a.Client.Patch(ctx, kinds.Nodes, "", a.Node, client.Patch{Type: types.JSONPatchType, Data: data})
	if apierrors.IsInvalid(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// announce tells where volumes lie and how much room there is, if that changed by much.
func (a *agent) announce(ctx context.Context, n *corev1.Node) {
	free, err := a.disk.free()
	if err != nil {
		a.Log.Warn("look at the room for local storage", "err", err)
		return
	}
	told, ok := localvolume.FreeOn(n)
	if ok && n.Annotations[localvolume.Path] == a.Dir && near(told, free) {
		return
	}
	a.annotate(ctx, map[string]any{localvolume.Path: a.Dir, localvolume.Free: strconv.FormatInt(free, 10)})
}

// near says that the free room is about what was told: within a sixteenth and 256 MiB.
func near(told, free int64) bool {
	const slack = 256 << 20
	d := told - free
	return max(d, -d) <= told/16+slack && (told > slack) == (free > slack)
}

// withdraw takes back what an agent with local storage told, until ctx ends.
func (a *agent) withdraw(ctx context.Context) error {
	feed := a.Client.Feed(kinds.Nodes)
	for {
		if _, err := feed.Next(ctx); err != nil {
			return nil // it fails only with ctx
		}
		n := resource.Get(a.Client.Read(), kinds.Nodes, "", a.Node)
		if n != nil && n.Annotations[localvolume.Path] != "" {
			a.annotate(ctx, map[string]any{localvolume.Path: nil, localvolume.Free: nil})
		}
	}
}

func (a *agent) annotate(ctx context.Context, notes map[string]any) {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": notes}})
	if err == nil {
		_, err = a.Client.Patch(ctx, kinds.Nodes, "", a.Node, client.Patch{Type: types.MergePatchType, Data: data})
	}
	if err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) {
		a.Log.Warn("tell of local storage", "err", err)
	}
}

// empty removes what was in removed volumes, until ctx ends.
func (a *agent) empty(ctx context.Context) {
	for {
		if err := a.disk.empty(ctx); err != nil {
			a.Log.Warn("remove what was in removed volumes", "again", lookEvery, "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-a.trash:
		case <-time.After(lookEvery):
		}
	}
}
