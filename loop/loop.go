// Package loop runs controllers. A controller looks at one object and the world around it, decides what is
// missing, and does it. The engine decides when: on every change, after a wait the controller asked for, and
// again with growing pauses after an error.
//
// What the engine promises:
//
//   - one key is never reconciled twice at once;
//   - a reconcile sees one unchanging state of all kinds;
//   - a key rests until that state holds the key's own last writes;
//   - an error retries that key with growing, jittered pauses and delays no other key;
//   - again > 0 means "look again then" and is no error;
//   - a write to a kind that the controller did not declare is refused;
//   - after a lost feed, and once in a long while, every key is looked at again.
//
// For every key that is not at rest there is a Record of why.
package loop

import (
	"cmp"
	"context"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/resource"
)

// Now asks for another pass as soon as the writes of this one are seen: Requeue, as controller-runtime has it.
const Now = time.Millisecond

// A Key names one object to reconcile.
type Key struct {
	Kind            resource.Kind
	Namespace, Name string
}

// KeyOf returns the key of an object.
func KeyOf(k resource.Kind, obj metav1.Object) Key {
	return Key{k, obj.GetNamespace(), obj.GetName()}
}

// compareKeys orders keys by kind, namespace and name.
func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Kind.Info().Plural, b.Kind.Info().Plural), cmp.Compare(a.Kind.Info().GVK.Group, b.Kind.Info().GVK.Group),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// String is kind/namespace/name, or kind/name of what has no namespace.
func (k Key) String() string {
	s := k.Kind.Info().Singular + "/"
	if k.Namespace != "" {
		s += k.Namespace + "/"
	}
	return s + k.Name
}

// A Controller keeps the objects of one kind converged.
type Controller[T resource.Object] struct {
	Name   string
	For    *resource.Def[T] // one key per object of this kind; nil: of every kind (T is resource.Object)
	Wake   []Wake           // what else wakes a key
	Writes []resource.Kind  // what it may change; Anything lifts the limit
	// Workers bounds how many keys are reconciled at once; 0: 4.
	Workers int
	// Rest is the time for which a key at least rests between two looks, so that a burst of changes costs few of them; the
	// first change after a calm is looked at at once. A look that took long rests longer. 0: not at all.
	Rest time.Duration
	// Pause is the time after a first failure until a key is looked at again, which doubles with each that follows up to MaxPause; 0: 10 ms,
	// and 5 minutes. News of what the key depends on may come first.
	Pause, MaxPause time.Duration
	// Find, if set, names keys whose objects may not exist and that have to be looked at all the same when the loop
	// starts, and whenever it looks at everything: what depends on an object that went while nobody looked. At the start it returns
	// before any other key is reconciled.
	Find func(read resource.Reader, wake func(ns, name string))
	// Lone, if set, is the name of the one key of a loop that looks at everything in one pass, since two passes at once would give one thing
	// away twice. Gone is called with it, when the loop starts and whenever Wake names it; objects of For have no keys of their own.
	Lone string
	// ExternalWakes, if set, wake keys for reasons outside the cluster's state.
	ExternalWakes *ExternalWakes
	// Outline says that Reconcile sees no more than the outline of objects that are kept sealed.
	Outline bool
	// Skip, if set, says that an object never needs a look, nor does its end: see Deleted.
	Skip func(T) bool

	// Reconcile makes the world match obj, or says when to look again. obj is shared: Clone before changing.
	Reconcile func(ctx context.Context, c *Ctx, obj T) (again time.Duration, err error)
	// Gone, if set, is called instead when the key's object does not exist.
	Gone func(ctx context.Context, c *Ctx, key Key) (again time.Duration, err error)
}

// Anything as Writes lets a controller write every kind.
var Anything = []resource.Kind{nil}

// A Wake maps a change to keys of the controller's kind. It runs on the dispatcher: it must be quick and must not block.
type Wake struct {
	Kind resource.Kind // whose changes; nil: all kinds
	Keys func(c client.Change, read resource.Reader, wake func(ns, name string))
	// KeysOf is Keys for controllers of every kind.
	KeysOf func(c client.Change, read resource.Reader, wake func(Key))
	// Count, if set, is called instead: it wakes none, and counts what became of objects. Those there are at the start are new to it.
	Count func(c client.Change, f *Figures)
}

// Deleted wakes the key of an object of kind k that is deleted, also of one that Skip leaves out.
func Deleted(k resource.Kind) Wake {
	return Wake{Kind: k, Keys: func(c client.Change, _ resource.Reader, wake func(ns, name string)) {
		if c.New == nil {
			wake(c.Old.GetNamespace(), c.Old.GetName())
		}
	}}
}

// Owner wakes the controlling owner, of the controller's kind, of objects of kind k: the old one too when
// ownership changed.
func Owner(k resource.Kind) Wake {
	return Wake{Kind: k, Keys: func(c client.Change, _ resource.Reader, wake func(ns, name string)) {
		for _, obj := range []resource.Object{c.Old, c.New} {
			if obj != nil {
				if ref := metav1.GetControllerOfNoCopy(obj); ref != nil {
					wake(obj.GetNamespace(), ref.Name)
				}
			}
		}
	}}
}

// Same wakes the object of the same namespace and name.
func Same(k resource.Kind) Wake {
	return Wake{Kind: k, Keys: func(c client.Change, _ resource.Reader, wake func(ns, name string)) {
		obj := c.Object()
		wake(obj.GetNamespace(), obj.GetName())
	}}
}

// Each wakes the objects that pick names, for changes of kind k.
func Each(k resource.Kind, pick func(obj resource.Object, read resource.Reader, wake func(ns, name string))) Wake {
	return Wake{Kind: k, Keys: func(c client.Change, read resource.Reader, wake func(ns, name string)) {
		for _, obj := range []resource.Object{c.Old, c.New} {
			if obj != nil {
				pick(obj, read, wake)
			}
		}
	}}
}

// Adopters wakes the objects of a kind whose selector matches an object of kind k that nobody controls, when it is new, has other labels
// or lost its controller: they may adopt it. A nil selector, and one that says nothing, match nothing.
func Adopters[T resource.Object](k resource.Kind, of *resource.Def[T], selector func(T) *metav1.LabelSelector) Wake {
	return Wake{Kind: k, Keys: func(c client.Change, read resource.Reader, wake func(ns, name string)) {
		if c.New == nil || len(c.New.GetLabels()) == 0 || metav1.GetControllerOfNoCopy(c.New) != nil || c.Old != nil &&
			metav1.GetControllerOfNoCopy(c.Old) == nil && maps.Equal(c.Old.GetLabels(), c.New.GetLabels()) {
			return
		}
		for _, owner := range resource.List(read, of, c.New.GetNamespace()) {
			s := selector(owner)
			if s != nil && len(s.MatchLabels)+len(s.MatchExpressions) > 0 && Selects(s, c.New.GetLabels()) {
				wake(owner.GetNamespace(), owner.GetName())
			}
		}
	}}
}

// Selects says that a selector matches labels; nil, and one that can't be read, match none. For those who ask many selectors of one
// object: unlike one that is compiled first, it costs nothing where a label differs.
func Selects(s *metav1.LabelSelector, of map[string]string) bool {
	if s == nil {
		return false
	}
	for k, v := range s.MatchLabels {
		if has, ok := of[k]; !ok || has != v {
			return false
		}
	}
	if len(s.MatchExpressions) == 0 {
		return true
	}
	parsed, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && parsed.Matches(labels.Set(of))
}

// A Loop is anything that the engine runs; *Controller implements it. Loops with a shape of their own (the
// scheduler, a node agent) only share Name and Run.
type Loop interface {
	LoopName() string
	// Run works until ctx ends. It returns early only when it cannot go on.
	Run(ctx context.Context, env Env) error
}
