// Package gaps keeps the explanations of all objects that are not what they should be up to date while somebody wants them, and finds the
// fields that two managers set back and forth.
package gaps

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/kinds/convergence"
)

// List explains all objects in the namespace that are not what they should be, "" in all and those of no namespace, the worst
// first: what a Cache shows, computed once. It holds at most maxGaps; more says that there are more. Of objects of one controller
// that are alike the first has a gap, which counts the others.
func List(w *converge.World, ns string) (list []*convergence.Gap, more bool) {
	like := map[likeness]*convergence.Gap{}
	others := map[*convergence.Gap]int32{}
	for _, k := range w.Kinds.All() {
		if k.Info().Virtual || noise[k.Info().GR()] || ns != "" && !k.Info().Namespaced {
			continue
		}
		for obj := range w.Read.Each(k, ns) {
			if w.Health(k, obj).Converged() || toldByOwner(w, obj) {
				continue
			}
			s := w.Explain(k, obj)
			if s == nil || !ripe(w, s) {
				continue
			}
			g := s.Gap()
			if ref := metav1.GetControllerOfNoCopy(obj); ref != nil {
				key := likeness{ref.UID, g.Cause, g.State}
				if first := like[key]; first != nil {
					others[first]++
					continue
				}
				like[key] = g
			}
			if len(list) == maxGaps {
				more = true
				continue
			}
			list = append(list, g)
		}
	}
	for g, n := range others {
		g.Alike(n)
	}
	Sort(list)
	return list, more
}

// A likeness groups objects whose controller has no gap, or is not seen: those that are alike stand in one row.
type likeness struct {
	controller   types.UID
	cause, state string
}

// Sort puts gaps in the order in which a person should read them: what is stuck for good before what may move by itself, and of
// that what is stuck for longest first.
func Sort(list []*convergence.Gap) {
	slices.SortStableFunc(list, func(a, b *convergence.Gap) int {
		return cmp.Or(cmp.Compare(badness(a.State), badness(b.State)), a.Since.Compare(b.Since.Time),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// badness orders states, the worst first.
func badness(state string) int {
	order := []string{converge.Failed, converge.Missing, converge.Blocked, converge.BackingOff, converge.Waiting, converge.Running,
		converge.Queued, converge.Progressing, converge.Latent, converge.Resting}
	if i := slices.Index(order, state); i >= 0 {
		return i
	}
	return len(order)
}
