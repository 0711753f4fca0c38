package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// A Loop keeps the world as the objects of a kind want it. W is the type that Observe returns. Passes over different objects run at
// once, over one object never.
type Loop[T metav1.Object, W any] struct {
	Name string // tells the loop from others, in why and trace: a DNS label
	Kind Kind[T]

	// Observe reads the part of the world that the object is about, and changes nothing. An error is a gap with that reason.
	Observe func(ctx context.Context, obj T) (W, error)
	// Plan says what is missing, in order; none: the world is as wanted. It is pure: it reads nothing but its arguments, and may be called
	// at any time. An object that is being deleted (its deletion timestamp is set) wants nothing to be left; see Clean.
	Plan func(obj T, world W) []Step
	// Status, if set, writes what was observed into the object's status. It is called with a copy, also when nothing is missing.
	Status func(obj T, world W)

	// Model, if set, says what the world is after a step, one of the world's own too; it changes nothing. Foresee reckons with it. nil: a
	// forecast ends with the steps that are missing now.
	Model func(obj T, world W, step Step) W

	// Clean has objects that are deleted stay until Plan finds nothing left to do for them. Without, their traces in the world stay.
	Clean bool

	// Poll is after which time an object is looked at again though it did not change: the world drifts. 0: one minute.
	Poll time.Duration
	// Watch, if set, runs beside the loop and wakes objects when the world tells of a change; it returns when ctx ends. A loop whose Watch
	// returns before goes on with Poll alone.
	Watch func(ctx context.Context, wake func(namespace, name string)) error

	// Target names what the object's steps act on, a host or a device: passes on one target run one at a time. nil: each object is its own.
	Target func(obj T) string
	// Every is the least time between two passes on one target. 0: none.
	Every time.Duration
	// Deadline bounds a pass, from Observe to the last step. 0: 30 seconds.
	Deadline time.Duration

	// OneByOne has a pass do the first step alone. The world is read anew before the next, for a step may change what the others must be.
	OneByOne bool
}

// A Step is one change of the world. It must be safe to do again: a process may end between a change and the note of it.
type Step struct {
	Name string // for people: "write /etc/motd"
	// Do makes the change. nil: the world must come to it by itself. The steps behind it wait, and the object is looked at again after Poll.
	Do func(ctx context.Context) error
}

// ModeAnnotation on an object says how far its loop may go.
const ModeAnnotation = "engine.kloop.dev/mode"

// The values of ModeAnnotation. Without it a loop acts.
const (
	ModeObserve = "observe" // what is missing is only reported: a dry run
	ModePause   = "pause"   // the object is not looked at
)

func (l Loop[T, W]) definition() []byte { return l.Kind.CRD }

// runner is a loop without its types.
type runner struct {
	name string
	kind schema.GroupKind
	run  func(ctx context.Context, env loop.Env) error

	foretell func(ctx context.Context, obj resource.Object) []string // what a dry run with this object tells
}

func (l Loop[T, W]) controller(gk schema.GroupKind) (*runner, error) {
	if l.Name == "" || l.Observe == nil || l.Plan == nil {
		return nil, errors.New("a loop needs Name, Observe and Plan")
	}
	if t := reflect.TypeFor[T](); t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("loop %s: the objects' type is a pointer to a struct, not %v", l.Name, t)
	}
	l.fill()
	w := &worker[T, W]{Loop: l, kind: gk, targets: targets{every: l.Every}, pokes: loop.NewExternalWakes()}
	return &runner{name: l.Name, kind: gk, run: w.run, foretell: w.foretell}, nil
}

// worker runs a Loop on the engine of kloop's own loops.
type worker[T metav1.Object, W any] struct {
	Loop[T, W]
	kind    schema.GroupKind
	targets targets
	pokes   *loop.ExternalWakes
}

func (w *worker[T, W]) run(ctx context.Context, env loop.Env) error {
	ctx, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if w.Watch == nil {
			return
		}
		err := w.Watch(ctx, func(ns, name string) {
			if k, ok := env.Client.Kinds().GroupKind(w.kind); ok {
				w.pokes.Wake(loop.Key{Kind: k, Namespace: ns, Name: name}, "the world changed")
			}
		})
		if ctx.Err() == nil {
			env.Log.Warn("the watch of the world ended; objects are looked at from time to time", "loop", w.Name, "err", err, "again", w.Poll)
		}
	}()
	c := loop.Controller[resource.Object]{Name: w.Name, Skip: w.skip, Writes: loop.Anything, ExternalWakes: w.pokes, Workers: 16,
		Reconcile: w.reconcile}
	err := c.Run(ctx, env)
	stop()
	<-watched
	return err
}

// foretell says what a dry run with this object tells.
func (w *worker[T, W]) foretell(ctx context.Context, stored resource.Object) []string {
	obj, err := decode[T](stored)
	if err != nil {
		return []string{w.Name + ": " + err.Error()}
	}
	if obj.GetDeletionTimestamp() != nil && !slices.Contains(obj.GetFinalizers(), w.finalizer()) {
		return nil // its traces stay
	}
	return w.warnings(ctx, &w.targets, obj)
}

// finalizer has a deleted object stay until the loop has cleaned up.
func (w *worker[T, W]) finalizer() string { return w.Name + "." + w.kind.Group + "/clean" }

// skip leaves out what is of other kinds: definitions come and go, so the loop is over all kinds.
func (w *worker[T, W]) skip(obj resource.Object) bool {
	return obj.GetObjectKind().GroupVersionKind().GroupKind() != w.kind
}

// reconcile is a pass over one object.
func (w *worker[T, W]) reconcile(ctx context.Context, c *loop.Ctx, stored resource.Object) (time.Duration, error) {
	obj, err := decode[T](stored)
	if err != nil {
		return 0, err
	}
	finalizer := w.finalizer()
	leaving, kept := obj.GetDeletionTimestamp() != nil, slices.Contains(obj.GetFinalizers(), finalizer)
	switch {
	case leaving && !kept:
		return 0, nil
	case obj.GetAnnotations()[ModeAnnotation] == ModePause:
		c.Waiting("it is paused by the annotation %s", ModeAnnotation)
		return 0, w.report(ctx, c, stored, obj, nil, metav1.Condition{Status: metav1.ConditionUnknown, Reason: "Paused"})
	case w.Clean && !leaving && !kept:
		return 0, setFinalizers(ctx, c, stored, append(obj.GetFinalizers(), finalizer)) // the change wakes the object
	}
	name := string(obj.GetUID())
	if w.Target != nil {
		name = w.Target(obj)
	}
	wait, leave := w.targets.enter(name, c.Now())
	if leave == nil {
		c.Waiting("the target %s is busy or rests", name)
		return wait, nil
	}
	defer func() { leave(c.Now()) }()
	return w.pass(ctx, c, stored, obj, finalizer)
}

// pass observes, plans, acts and reports.
func (w *worker[T, W]) pass(ctx context.Context, c *loop.Ctx, stored resource.Object, obj T, finalizer string) (time.Duration, error) {
	o := w.once(ctx, obj, func(typ, reason, text string) {
		if k, ok := c.Client().Kinds().GroupKind(w.kind); ok {
			c.Event(k, stored, typ, reason, "%s", text)
		}
	})
	ready := o.ready.Status == metav1.ConditionTrue
	if ready && obj.GetDeletionTimestamp() != nil {
		return 0, setFinalizers(ctx, c, stored, slices.DeleteFunc(obj.GetFinalizers(), func(f string) bool { return f == finalizer }))
	}
	if !ready {
		c.Waiting("%s", o.ready.Message)
	}
	if err := errors.Join(o.err, w.report(ctx, c, stored, obj, o.world, o.ready)); err != nil {
		return 0, err // the engine tries again, after longer and longer pauses
	}
	return o.again, nil
}

func failed(reason string, err error) metav1.Condition {
	return metav1.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: err.Error()}
}

// maxNamed bounds how many steps a message names.
const maxNamed = 10

func names(steps []Step) string {
	var all []string
	for _, s := range steps {
		all = append(all, s.Name)
	}
	return list(all)
}

// list names some, and counts the others.
func list(all []string) string {
	if n := len(all) - maxNamed; n > 0 {
		all = append(slices.Clone(all[:maxNamed]), fmt.Sprintf("%d more", n))
	}
	return strings.Join(all, ", ")
}

// decode returns a typed copy of an object.
func decode[T metav1.Object](stored resource.Object) (T, error) {
	obj := reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
	data, err := codec.MarshalJSON(stored)
	if err == nil {
		err = json.Unmarshal(data, obj)
	}
	if err != nil {
		return obj, fmt.Errorf("read the object as %T: %w", obj, err)
	}
	return obj, nil
}
