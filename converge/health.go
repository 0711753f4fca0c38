package converge

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/resource"
)

// A Health says whether an object is as it should be. The zero value says that it is.
type Health struct {
	Says  string // what differs: completes a sentence whose subject is the object
	Want  string // the field that says what should be, with its value
	Have  string // the field that says what is, with its value
	Since time.Time
	// Fine says that nothing is stuck though the object is not done: its work simply takes time.
	Fine bool
}

// Converged reports whether the object is as it should be.
func (h Health) Converged() bool { return h.Says == "" }

// Health judges an object: built-in kinds by the rules that sigs.k8s.io/cli-utils' kstatus has for them, all others by
// the ones that it has for any object: deletion, generation and conditions. Where kstatus says InProgress of what only
// waits for its first use, or of a job that is at work, there is no gap.
func (w *World) Health(k resource.Kind, obj resource.Object) Health {
	if at := obj.GetDeletionTimestamp(); at != nil {
		return w.leaving(obj, at.Time)
	}
	if f, ok := w.Rules.Healths[k.Info().GR()]; ok {
		h := f(w, obj)
		if !h.Converged() && h.Since.IsZero() {
			h.Since = Changed(obj)
		}
		return h
	}
	if tree, ok := words.Tree(obj); ok && w.Rules.Custom != nil {
		return w.Rules.Custom(w, k, obj, tree)
	}
	return Health{}
}

// Rest explains an object that agrees with its spec and rests on purpose, or of which more is to be said; nil when there is nothing.
func (w *World) Rest(k resource.Kind, obj resource.Object) *convergence.Gap {
	if w.Rules.Rest == nil {
		return nil
	}
	return w.Rules.Rest(w, k, obj)
}

// Grace is the time for which an overdue deletion is no gap yet.
const Grace = 2 * time.Second

// leaving judges what is being deleted. A pod's deletionTimestamp lies ahead by its grace period.
func (w *World) leaving(obj resource.Object, at time.Time) Health {
	if w.Early(at.Add(Grace)) {
		return Health{}
	}
	h := Health{Says: "was deleted and is still there", Since: at, Want: "metadata.deletionTimestamp=" + at.UTC().Format(time.RFC3339)}
	h.Have = "the object exists"
	if f := obj.GetFinalizers(); len(f) > 0 {
		h.Have = "metadata.finalizers=[" + words.List(f, 3) + "]"
	}
	return h
}

// Judge judges objects of one kind that are not being deleted.
type Judge func(w *World, obj resource.Object) Health

// Changed is the time at which somebody last changed what the object should be: the newest write of another part than its status.
func Changed(obj metav1.Object) time.Time {
	at := obj.GetCreationTimestamp().Time
	for _, m := range obj.GetManagedFields() {
		if m.Subresource == "" && m.Time != nil && m.Time.After(at) {
			at = m.Time.Time
		}
	}
	return at
}
