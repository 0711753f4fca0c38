// Package converge explains what has not converged: which object is not what it should be, whose move it is, what
// that loop waits for, and when it tries next.
//
// Everything that is said is derived from what is there: the objects (spec, status, conditions, events), the engine's
// records of why keys are not at rest, and what the front door saw of those who come over the wire. A Health says
// that an object is not what it should be; a Situation says why; Explain follows the causes down to the object where
// they end.
//
// This package has the facts and the way through them; what is known of kinds stands in Rules, which the packages below it fill:
//
//	words     what messages and statuses say, as text
//	mentions  which objects a spec names
//	general   the rules for any object, and for the kinds that say how the API works
//	health    is an object what it should be?
//	causes    why not: a rule for each situation
//	rests     what does nothing on purpose
//	rules     all of them together
//	gaps      keeps the explanations of all objects up to date
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

	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/kinds/core"
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
	makers   makers                        // of what may not exist, as far as they were asked for
	madeIn   map[string]bool               // the namespaces whose makers are known
	path     []loop.Key                    // the objects whose explanation is being made
	rules    map[schema.GroupResource][]Situation
	kept     map[reflect.Type]any // what rules have worked out once: see Kept
	Until    time.Time            // the first time at which an object whose health was asked for may have a gap without a change
}

// Kept returns what a rule has worked out once in a world. A rule finds its own by the type of it; at first it is empty.
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

// Early says that it is too early to speak of a gap, and that it will not be after a time.
func (w *World) Early(after time.Time) bool {
	if w.Now.After(after) {
		return false
	}
	if w.Until.IsZero() || after.Before(w.Until) {
		w.Until = after
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
	for _, s := range w.Rules.Situations {
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

// Unwatched says that no controller outside watches a resource, where that is known.
func (w *World) Unwatched(gr schema.GroupResource) bool {
	return w.Callers != nil && w.Callers.watchers(gr) == 0 && (w.Callers.Ours == nil || !w.Callers.Ours(gr))
}

// Runs says whether the named loop runs, and whether that is known at all.
func (w *World) Runs(name string) (runs, known bool) {
	if w.Loops == nil {
		return false, false
	}
	if w.running == nil {
		w.running, w.surely = w.Loops.Running()
	}
	return w.running[name], w.surely
}

// Record returns what a loop noted of an object.
func (w *World) Record(name string, k resource.Kind, obj resource.Object) (loop.Record, bool) {
	if w.Loops == nil || name == "" {
		return loop.Record{}, false
	}
	r, ok := w.Loops.Record(name, loop.KeyOf(k, obj))
	for _, text := range []*string{&r.LastErr, &r.Note} {
		if !w.Tells(*text) {
			*text = Hidden
		}
	}
	return r, ok
}

// Events returns the warnings about an object, of any age. Some tell failures as Normal, as Trident's ProvisioningFailed.
func (w *World) Events(uid types.UID) []*corev1.Event {
	if w.warnings == nil {
		w.warnings = map[types.UID][]*corev1.Event{}
		for _, e := range resource.List(w.Read, core.Events, "") {
			if e.Type == corev1.EventTypeWarning || strings.HasSuffix(e.Reason, "Failed") {
				w.warnings[e.InvolvedObject.UID] = append(w.warnings[e.InvolvedObject.UID], e)
			}
		}
	}
	return w.warnings[uid]
}

// Newest returns what was last told of an object, warning or not.
func (w *World) Newest(uid types.UID) *corev1.Event {
	if w.latest == nil {
		w.latest, w.scaling = map[types.UID]*corev1.Event{}, map[types.UID]*corev1.Event{}
		keep := func(in map[types.UID]*corev1.Event, e *corev1.Event) {
			if best := in[e.InvolvedObject.UID]; best == nil || Told(best).Before(Told(e)) {
				in[e.InvolvedObject.UID] = e
			}
		}
		for _, e := range resource.List(w.Read, core.Events, "") {
			keep(w.latest, e)
			if strings.HasSuffix(e.Reason, "TriggerScaleUp") || e.Reason == "TriggeredScaleUp" ||
				cmp.Or(e.Source.Component, e.ReportingController) == "karpenter" {
				keep(w.scaling, e)
			}
		}
	}
	return w.latest[uid]
}

// Scaled returns what an autoscaler of nodes last told of a pod.
func (w *World) Scaled(uid types.UID) *corev1.Event {
	w.Newest(uid)
	return w.scaling[uid]
}

// Warning returns the newest warning about an object for one of the reasons.
func (w *World) Warning(uid types.UID, reasons ...string) *corev1.Event {
	var best *corev1.Event
	for _, e := range w.Events(uid) {
		for _, r := range reasons {
			if e.Reason == r && (best == nil || Told(best).Before(Told(e))) {
				best = e
			}
		}
	}
	return best
}

// Told is the time at which an event was last seen.
func Told(e *corev1.Event) time.Time {
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

// A Look is one object under examination.
type Look struct {
	*World
	Kind   resource.Kind
	Obj    resource.Object
	Judged Health
	Owner  string // the loop that keeps objects of this kind converged
}

// Object names what is looked at.
func (l *Look) Object() convergence.Object { return ObjectOf(l.Kind, l.Obj) }

// ObjectOf names an object in a gap.
func ObjectOf(k resource.Kind, obj resource.Object) convergence.Object {
	o := Named(k, obj.GetNamespace(), obj.GetName())
	o.UID = string(obj.GetUID())
	return o
}

// Named names an object that may not exist.
func Named(k resource.Kind, ns, name string) convergence.Object {
	i := k.Info()
	if !i.Namespaced {
		ns = ""
	}
	return convergence.Object{APIVersion: i.GVK.GroupVersion().String(), Kind: i.GVK.Kind, Resource: i.GR().String(), Namespace: ns,
		Name: name}
}
