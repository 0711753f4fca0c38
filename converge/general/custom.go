package general

import (
	"fmt"
	"strings"
	"time"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/mentions"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// customHealth judges any object by what operators agree on: observedGeneration, and what its status complains of.
func customHealth(w *converge.World, k resource.Kind, obj resource.Object, tree map[string]any) converge.Health {
	status, has := tree["status"].(map[string]any)
	if says, _ := LeftAlone(k, obj, tree); says != "" {
		return converge.Health{}
	}
	if observed, ok := status["observedGeneration"].(int64); ok && (observed >= 0 ||
		words.ComplaintIn(tree).Says == "") { // Flux's -1: it never went well
		if h, is := Behind(obj.GetGeneration(), observed); is {
			return h
		}
	}
	if field, class := classless(w, obj, tree); field != "" {
		return converge.Health{Says: "is taken up by nobody", Want: field + "=" + class.Name, Have: "no such " + class.Kind.Info().Singular}
	}
	if strings.HasSuffix(k.Info().GVK.Kind, "Route") && strings.HasPrefix(k.Info().GVK.Group, "gateway.") { // not all controllers say so
		for _, m := range (&mentions.Search{World: w, Kind: k, Obj: obj}).Mentions(tree) {
			if strings.HasPrefix(m.Part, "port ") {
				return converge.Health{Says: "leads to a port that is not there", Want: m.Field + " of a port that is there",
					Have: "no such port"}
			}
		}
	}
	if c := words.ComplaintIn(tree); c.Says != "" {
		return converge.Health{Says: c.Says, Want: c.Want, Have: c.Have, Since: c.Since}
	}
	if m := Untargeted(&mentions.Search{World: w, Kind: k, Obj: obj}, tree); m != nil {
		return converge.Health{Says: "is for what is not there", Want: m.Field + " of what is there", Have: "no such " +
			m.Kind.Info().Singular}
	}
	if !has && w.Callers != nil && w.HasStatus(k) && (w.Unwatched(k.Info().GR()) || hindered(w, k, obj)) {
		return converge.Health{Says: "has no status", Want: "metadata.generation=" + fmt.Sprint(obj.GetGeneration()),
			Have: "status missing"}
	}
	if of, down := KeeperDown(w, k); !has && down != nil {
		return converge.Health{Says: "has no status", Want: "a status", Have: "no status", Since: w.Health(of, down).Since}
	}
	if !Speaks(status) && NewestWarning((&converge.Look{World: w, Obj: obj})) != nil {
		says := "has no status, and its controller warns"
		if len(status) > 0 {
			says = "has a status that does not say how it is, and its controller warns"
		}
		return converge.Health{Says: says, Want: "a status", Have: "status empty"}
	}
	done, _ := status["operationState"].(map[string]any)
	if has && (!words.SaysWell(status) || words.String(done, "phase") == "Running" || words.String(status, "phase") == "Running" ||
		fewer(tree)) {
		if h := partsSay(w, k, obj, tree); !h.Converged() {
			return h
		}
	}
	if h := belied(w, obj, status); !h.Converged() {
		return h
	}
	return lingers(w, obj, status)
}

// KeeperDown is the workload that seems to keep objects of a kind, if it does not run.
func KeeperDown(w *converge.World, k resource.Kind) (of resource.Kind, down resource.Object) {
	if of, down, _ = ProjectDown(w, k); down != nil {
		return of, down
	}
	if w.Outside() {
		of, down, _ = downByRights(w, k)
	}
	return of, down
}

// A judged is the health of an object, and the time at which it may be another without a change.
type judged struct {
	health converge.Health
	until  time.Time
}

// judgements are the healths of objects of kinds that users defined.
type judgements struct {
	alone  map[loop.Key]judged
	asPart map[loop.Key]judged // the same, as parts of another
	within bool                // an object is judged by its parts: these are not judged by theirs
}

// Custom works out a custom object's health once: all that it is a part of ask for it.
func Custom(w *converge.World, k resource.Kind, obj resource.Object, tree map[string]any) converge.Health {
	all := converge.Kept[judgements](w)
	list := &all.alone
	if all.within {
		list = &all.asPart
	}
	key := loop.KeyOf(k, obj)
	j, known := (*list)[key]
	if !known {
		before := w.Until
		w.Until = time.Time{}
		if j.health = customHealth(w, k, obj, tree); !j.health.Converged() && j.health.Since.IsZero() {
			j.health.Since = converge.Changed(obj)
		}
		j.until, w.Until = w.Until, before
		if *list == nil {
			*list = map[loop.Key]judged{}
		}
		(*list)[key] = j
	}
	if !j.until.IsZero() {
		w.Early(j.until)
	}
	return j.health
}

// Speaks says that a status says anything of how its object is.
func Speaks(status map[string]any) bool {
	for field, v := range status {
		_, word := v.(string)
		if field == "conditions" || field == "ready" || word && (field == "phase" || field == "state" || field == "status" ||
			field == "health") {
			return true
		}
	}
	return false
}

// partsSay judges an object whose status has no word on the whole by what was made for it, or is listed there: what is not well for long.
func partsSay(w *converge.World, k resource.Kind, obj resource.Object, tree map[string]any) (h converge.Health) {
	all := converge.Kept[judgements](w)
	if all.within {
		return h // asked as a part itself
	}
	all.within = true
	defer func() { all.within = false }()
	l := &converge.Look{World: w, Kind: k, Obj: obj}
	for _, r := range append(PartsOf(l, obj, 0), Applied(mentions.Of(l), tree)...) {
		part := w.Health(r.Kind, w.Read.Lookup(r.Kind, r.NS, r.Name))
		if !part.Converged() && !part.Fine && !w.Early(part.Since.Add(SlowStart)) {
			return converge.Health{Says: "has a part that is not well", Want: "all parts well", Have: r.Kind.Info().Singular + "/" +
				r.Name + " is not",
				Since: part.Since}
		}
	}
	return h
}

// hindered says that the controller of the object was refused something lately.
func hindered(w *converge.World, k resource.Kind, obj resource.Object) bool {
	r, ok := w.Denied(k.Info().GR(), obj)
	return ok && w.Now.Sub(r.Last) < RefusedFor
}
