package converge

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// content is an object of a kind that users defined, as a tree.
func content(obj resource.Object) (map[string]any, bool) {
	u, ok := obj.(interface{ UnstructuredContent() map[string]any })
	if !ok {
		return nil, false
	}
	return u.UnstructuredContent(), true
}

// customHealth judges any object by what operators agree on: observedGeneration, and what its status complains of.
func (w *World) customHealth(k resource.Kind, obj resource.Object, tree map[string]any) Health {
	status, has := tree["status"].(map[string]any)
	if says, _ := leftAlone(k, obj, tree); says != "" {
		return Health{}
	}
	if observed, ok := status["observedGeneration"].(int64); ok && (observed >= 0 ||
		complaintIn(tree).says == "") { // Flux's -1: it never went well
		if h, is := behind(obj.GetGeneration(), observed); is {
			return h
		}
	}
	if field, class := w.classless(obj, tree); field != "" {
		return Health{Says: "is taken up by nobody", Want: field + "=" + class.Name, Have: "no such " + class.Kind.Info().Singular}
	}
	if strings.HasSuffix(k.Info().GVK.Kind, "Route") && strings.HasPrefix(k.Info().GVK.Group, "gateway.") { // not all controllers say so
		for _, m := range (&search{World: w, kind: k, obj: obj}).mentions(tree) {
			if strings.HasPrefix(m.part, "port ") {
				return Health{Says: "leads to a port that is not there", Want: m.field + " of a port that is there", Have: "no such port"}
			}
		}
	}
	if c := complaintIn(tree); c.says != "" {
		return Health{Says: c.says, Want: c.want, Have: c.have, Since: c.since}
	}
	if !has && w.Callers != nil && w.hasStatus(k) && (w.unwatched(k.Info().GR()) || w.hindered(k, obj)) {
		return Health{Says: "has no status", Want: "metadata.generation=" + fmt.Sprint(obj.GetGeneration()), Have: "status missing"}
	}
	if _, down, _ := projectDown(w, k); !has && down != nil {
		return Health{Says: "has no status", Want: "a status", Have: "no status", Since: w.Health(kinds.Deployments, down).Since}
	}
	if !speaks(status) && (&look{World: w, obj: obj}).newestWarning() != nil {
		says := "has no status, and its controller warns"
		if len(status) > 0 {
			says = "has a status that does not say how it is, and its controller warns"
		}
		return Health{Says: says, Want: "a status", Have: "status empty"}
	}
	done, _ := status["operationState"].(map[string]any)
	if has && (!saysWell(status) || text(done, "phase") == "Running" || text(status, "phase") == "Running" || fewer(tree)) {
		if h := partsSay(w, k, obj, tree); !h.Converged() {
			return h
		}
	}
	if h := belied(w, obj, status); !h.Converged() {
		return h
	}
	return lingers(w, obj, status)
}

// A judged is the health of an object, and the time at which it may be another without a change.
type judged struct {
	health Health
	until  time.Time
}

// judgements are the healths of objects of kinds that users defined.
type judgements struct {
	alone  map[loop.Key]judged
	asPart map[loop.Key]judged // the same, as parts of another
	within bool                // an object is judged by its parts: these are not judged by theirs
}

// customOnce works out a custom object's health once: all that it is a part of ask for it.
func customOnce(w *World, k resource.Kind, obj resource.Object, tree map[string]any) Health {
	all := Kept[judgements](w)
	list := &all.alone
	if all.within {
		list = &all.asPart
	}
	key := loop.KeyOf(k, obj)
	j, known := (*list)[key]
	if !known {
		before := w.until
		w.until = time.Time{}
		if j.health = w.customHealth(k, obj, tree); !j.health.Converged() && j.health.Since.IsZero() {
			j.health.Since = changed(obj)
		}
		j.until, w.until = w.until, before
		if *list == nil {
			*list = map[loop.Key]judged{}
		}
		(*list)[key] = j
	}
	if !j.until.IsZero() {
		w.early(j.until)
	}
	return j.health
}

// speaks says that a status says anything of how its object is.
func speaks(status map[string]any) bool {
	for field, v := range status {
		_, word := v.(string)
		if field == "conditions" || field == "ready" || word && (field == "phase" || field == "state" || field == "status" || field == "health") {
			return true
		}
	}
	return false
}

// saysWell says that a status says that all is well with the whole, by a condition or a word.
func saysWell(status map[string]any) bool {
	for typ, c := range conditionsIn(status) {
		if c.Status == "True" && slices.Contains(wellWords, strings.ToLower(typ)) {
			return true
		}
	}
	for _, field := range phaseFields {
		if field[0] == "operationState" { // a word on what was done last
			continue
		}
		at := status
		for _, step := range field[:len(field)-1] {
			at, _ = at[step].(map[string]any)
		}
		if word := text(at, field[len(field)-1]); word != "" {
			return slices.Contains(wellWords, strings.ToLower(word))
		}
	}
	return false
}

// partsSay judges an object whose status has no word on the whole by what was made for it, or is listed there: what is not well for long.
func partsSay(w *World, k resource.Kind, obj resource.Object, tree map[string]any) (h Health) {
	all := Kept[judgements](w)
	if all.within {
		return h // asked as a part itself
	}
	all.within = true
	defer func() { all.within = false }()
	l := &look{World: w, kind: k, obj: obj}
	for _, r := range append(l.partsOf(obj, 0), l.search().applied(tree)...) {
		part := w.Health(r.Kind, w.Read.Lookup(r.Kind, r.NS, r.Name))
		if !part.Converged() && !part.Fine && !w.early(part.Since.Add(slowStart)) {
			return Health{Says: "has a part that is not well", Want: "all parts well", Have: r.Kind.Info().Singular + "/" + r.Name + " is not",
				Since: part.Since}
		}
	}
	return h
}

// hindered says that the controller of the object was refused something lately.
func (w *World) hindered(k resource.Kind, obj resource.Object) bool {
	r, ok := w.denied(k.Info().GR(), obj)
	return ok && w.Now.Sub(r.Last) < refusedFor
}

// A custom condition is as much of a condition as all have.
type customCondition struct {
	Status, Reason, Message string
	at                      string
}

// since says since when it holds; zero: that is not known.
func (c customCondition) since() time.Time {
	t, _ := time.Parse(time.RFC3339, c.at)
	return t
}

func conditionsIn(status map[string]any) map[string]customCondition {
	list, _ := status["conditions"].([]any)
	byType, _ := status["conditions"].(map[string]any) // some operators have a map
	for _, typ := range slices.Sorted(maps.Keys(byType)) {
		if m, ok := byType[typ].(map[string]any); ok && typ != "" {
			m = maps.Clone(m)
			m["type"] = strings.ToUpper(typ[:1]) + typ[1:]
			list = append(list, m)
		}
	}
	if len(list) == 0 {
		return nil
	}
	out := make(map[string]customCondition, len(list))
	for _, item := range list {
		m, ok := item.(map[string]any)
		if !ok {
			continue
		}
		text := func(key string) string { s, _ := m[key].(string); return s }
		c := customCondition{Status: text("status"), Reason: text("reason"), Message: text("message")}
		if parts, _ := m["errors"].([]any); len(parts) > 0 { // Contour's conditions have more of them inside
			if part, _ := parts[0].(map[string]any); part["message"] != nil {
				c.Message = fmt.Sprint(part["message"])
			}
		}
		c.at = text("lastTransitionTime")
		out[text("type")] = c
	}
	return out
}
