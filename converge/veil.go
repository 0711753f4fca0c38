package converge

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/resource"
)

// Foreign makes a gap of a cluster that is no kloop free of advice that only kloop can follow.
func Foreign(g *convergence.Gap) {
	list := slices.DeleteFunc(g.Advice, func(a string) bool { return strings.Contains(a, "kloop") })
	if g.Cause == "NoNodes" {
		list, g.NoCommand = []string{"add a node"}, "who has the machines, or the cloud, adds it"
	}
	g.Advise(list)
}

// Hidden stands in the place of what a reader may not see.
const Hidden = "something that you may not see"

// andBehind ends the words on a cause that has one of its own which must stay hidden.
const andBehind = ", and that because of " + Hidden

// Partial says that a cause was not told.
func Partial(g *convergence.Gap) bool { return strings.HasSuffix(g.Because, Hidden) }

// A Veil limits explanations to what one reader may see.
type Veil interface {
	// Sees says that the reader may read an object; name "": all of the kind in the namespace, ns "": in all.
	Sees(k resource.Kind, ns, name string) bool
	// Tells says that a text names no object that the reader may not read. Texts of objects need no asking: who reads the object has them.
	Tells(text string) bool
}

// Tells says that the world's reader may see a text.
func (w *World) Tells(text string) bool { return text == "" || w.Veil == nil || w.Veil.Tells(text) }

// Denied finds what keeps an object's controller from its work, unless that must stay hidden.
func (w *World) Denied(gr schema.GroupResource, obj resource.Object) (Refusal, bool) {
	r, ok := w.Callers.refusalFor(gr, obj.GetNamespace(), obj.GetName())
	return r, ok && w.Tells(r.User+" "+r.Message)
}

// Veiled explains the object of a gap again, from what the world's reader may see. Where that leads to another cause, Hidden stands in its
// place, behind what leads there. The word of the cause, the state and the owner stay.
func (w *World) Veiled(g *convergence.Gap) *convergence.Gap {
	f := &convergence.Gap{Object: g.Object, Says: "is not what it should be", Since: g.Since, Next: convergence.Next{Who: g.Next.Who}}
	if k, ok := w.Kinds.GR(schema.ParseGroupResource(g.Object.Resource)); ok {
		if obj := w.Read.Lookup(k, g.Object.Namespace, g.Object.Name); obj == nil {
			return nil
		} else if step := w.Explain(k, obj); step != nil {
			f = step.Gap()
		} else if rest := w.Rest(k, obj); rest != nil && g.State == Resting {
			f = rest
		}
		if w.Veil.Sees(k, g.Object.Namespace, "") {
			f.Alike(g.Others)
		}
	}
	f.ObjectMeta = g.ObjectMeta
	if w.Outside() {
		Foreign(f)
	}
	if f.Cause == g.Cause || f.Cause == "NotSeen" {
		return f
	}
	if f.Cause, f.State = g.Cause, g.State; f.Owner != g.Owner {
		if f.Owner = g.Owner; !w.Tells(g.Owner) {
			f.Owner = Hidden
		}
	}
	if f.Because == "" {
		f.Verdict, f.Because = f.Object.Short()+" "+f.Says+" because of "+Hidden, Hidden
	} else {
		f.Verdict, f.Because = f.Verdict+andBehind, f.Because+andBehind
	}
	f.Advise(append(f.Advice, "ask somebody who may read more than you"))
	last := convergence.Link{}
	if n := len(f.Chain); n > 0 {
		last = f.Chain[n-1]
	}
	f.Chain = append(f.Chain, convergence.Link{Depth: last.Depth + 1, Object: convergence.Object{Name: Hidden}, Says: "is the cause",
		Cause: f.Cause, Owner: f.Owner, State: f.State})
	return f
}
