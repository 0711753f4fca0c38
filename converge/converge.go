// Package converge explains what has not converged: which object is not what it should be, whose move it is, what
// that loop waits for, and when it tries next.
//
// Everything that is said is derived from what is there: the objects (spec, status, conditions, events), the engine's
// records of why keys are not at rest, and what the front door saw of those who come over the wire. A Health says
// that an object is not what it should be; a Situation says why; Explain follows the causes down to the object where
// they end. A GapCache keeps the explanations of all objects up to date while somebody wants them.
//
// To add a situation: one rule in a file cause_*.go, its line there (a new list: its name in rules.go), and its row in test/why.
package converge

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// A World holds the facts that explanations are made of: one unchanging state, and what is known beside it. It is for one
// goroutine.
type World struct {
	Read    resource.Reader
	Kinds   *resource.Set
	Loops   *Processes // nil: nothing is known
	Callers *Callers   // nil: nothing is known
	Now     time.Time
	Rules   Rules
	// Unseen are the kinds that could not be read, and in which namespace alone they could; "": in none. What lies outside may exist.
	Unseen map[schema.GroupResource]string
	Veil   Veil // limits the words, and Read, to what one reader may see; nil: there is no such reader

	warnings map[types.UID][]*corev1.Event // by object; made when first asked for
	latest   map[types.UID]*corev1.Event   // the newest about each object; made when first asked for
	scaling  map[types.UID]*corev1.Event   // the newest of an autoscaler of nodes about each pod; made with latest
	running  map[string]bool               // loops; made when first asked for
	likest   map[Ref]string                // names like those that are waited for; made when first asked for
	surely   bool                          // and no others run
	path     []loop.Key                    // the objects whose explanation is being made
	rules    map[schema.GroupResource][]Situation
	owners   map[types.UID]bool   // controllers, and whether they have a gap
	kept     map[reflect.Type]any // what rules have worked out once: see Kept
	until    time.Time            // the first time at which an object whose health was asked for may have a gap without a change
}

// Kept is what rules have worked out once in a world, by its type, of which each of them has one of its own. At first it is empty.
func Kept[T any](w *World) *T {
	key := reflect.TypeFor[T]()
	if v, known := w.kept[key]; known {
		return v.(*T)
	}
	if w.kept == nil {
		w.kept = map[reflect.Type]any{}
	}
	v := new(T)
	w.kept[key] = v
	return v
}

// early says that it is too early to speak of a gap, and that it will not be after a time.
func (w *World) early(after time.Time) bool {
	if w.Now.After(after) {
		return false
	}
	if w.until.IsZero() || after.Before(w.until) {
		w.until = after
	}
	return true
}

// situations are those that objects of a kind can be in.
func (w *World) situations(k resource.Kind) []Situation {
	gr := k.Info().GR()
	if list, ok := w.rules[gr]; ok {
		return list
	}
	var list []Situation
	for _, s := range w.Rules.situations {
		if s.Of == nil || slices.ContainsFunc(s.Of, func(o resource.Kind) bool { return o.Info().GR() == gr }) {
			list = append(list, s)
		}
	}
	if w.rules == nil {
		w.rules = map[schema.GroupResource][]Situation{}
	}
	w.rules[gr] = list
	return list
}

// Sees says that the objects of a kind, or those in a namespace, are known: one that is not among them does not exist.
func (w *World) Sees(k resource.Kind, ns ...string) bool {
	only, partly := w.Unseen[k.Info().GR()]
	if partly && (only == "" || !slices.Contains(ns, only)) {
		return false
	}
	return w.Veil == nil || slices.ContainsFunc(append(ns, ""), func(in string) bool { return w.Veil.Sees(k, in, "") })
}

// unwatched says that no controller outside watches a resource, where that is known.
func (w *World) unwatched(gr schema.GroupResource) bool {
	return w.Callers != nil && w.Callers.watchers(gr) == 0 && (w.Callers.Ours == nil || !w.Callers.Ours(gr))
}

// runs says whether the named loop runs, and whether that is known at all.
func (w *World) runs(name string) (runs, known bool) {
	if w.Loops == nil {
		return false, false
	}
	if w.running == nil {
		w.running, w.surely = w.Loops.Running()
	}
	return w.running[name], w.surely
}

// record returns what a loop noted of an object.
func (w *World) record(name string, k resource.Kind, obj resource.Object) (loop.Record, bool) {
	if w.Loops == nil || name == "" {
		return loop.Record{}, false
	}
	r, ok := w.Loops.Record(name, loop.KeyOf(k, obj))
	for _, text := range []*string{&r.LastErr, &r.Note} {
		if !w.tells(*text) {
			*text = Hidden
		}
	}
	return r, ok
}

// events returns the warnings about an object, of any age.
func (w *World) events(uid types.UID) []*corev1.Event {
	if w.warnings == nil {
		w.warnings = map[types.UID][]*corev1.Event{}
		for _, e := range resource.List(w.Read, kinds.Events, "") {
			if e.Type == corev1.EventTypeWarning {
				w.warnings[e.InvolvedObject.UID] = append(w.warnings[e.InvolvedObject.UID], e)
			}
		}
	}
	return w.warnings[uid]
}

// newest returns what was last told of an object, warning or not.
func (w *World) newest(uid types.UID) *corev1.Event {
	if w.latest == nil {
		w.latest, w.scaling = map[types.UID]*corev1.Event{}, map[types.UID]*corev1.Event{}
		keep := func(in map[types.UID]*corev1.Event, e *corev1.Event) {
			if best := in[e.InvolvedObject.UID]; best == nil || told(best).Before(told(e)) {
				in[e.InvolvedObject.UID] = e
			}
		}
		for _, e := range resource.List(w.Read, kinds.Events, "") {
			keep(w.latest, e)
			if strings.HasSuffix(e.Reason, "TriggerScaleUp") || e.Reason == "TriggeredScaleUp" ||
				cmp.Or(e.Source.Component, e.ReportingController) == "karpenter" {
				keep(w.scaling, e)
			}
		}
	}
	return w.latest[uid]
}

// scaled returns what an autoscaler of nodes last told of a pod.
func (w *World) scaled(uid types.UID) *corev1.Event {
	w.newest(uid)
	return w.scaling[uid]
}

// warning returns the newest warning about an object for one of the reasons.
func (w *World) warning(uid types.UID, reasons ...string) *corev1.Event {
	var best *corev1.Event
	for _, e := range w.events(uid) {
		for _, r := range reasons {
			if e.Reason == r && (best == nil || told(best).Before(told(e))) {
				best = e
			}
		}
	}
	return best
}

// told is the time at which an event was last seen.
func told(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.CreationTimestamp.Time
}

// A look is one object under examination.
type look struct {
	*World
	kind   resource.Kind
	obj    resource.Object
	health Health
	owner  string // the loop that keeps objects of this kind converged
}

func (l *look) object() convergence.Object { return objectOf(l.kind, l.obj) }

func objectOf(k resource.Kind, obj resource.Object) convergence.Object {
	o := named(k, obj.GetNamespace(), obj.GetName())
	o.UID = string(obj.GetUID())
	return o
}

func named(k resource.Kind, ns, name string) convergence.Object {
	i := k.Info()
	if !i.Namespaced {
		ns = ""
	}
	return convergence.Object{APIVersion: i.GVK.GroupVersion().String(), Kind: i.GVK.Kind, Resource: i.GR().String(), Namespace: ns,
		Name: name}
}
