package converge

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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
	if c := complaintIn(tree); c.says != "" {
		return Health{Says: c.says, Want: c.want, Have: c.have, Since: c.since}
	}
	if !has && w.Callers != nil && w.hasStatus(k) && (w.unwatched(k.Info().GR()) || w.hindered(k, obj)) {
		return Health{Says: "has no status", Want: "metadata.generation=" + fmt.Sprint(obj.GetGeneration()), Have: "status missing"}
	}
	if len(status) == 0 && (&look{World: w, obj: obj}).newestWarning() != nil {
		return Health{Says: "has no status, and its controller warns", Want: "a status", Have: "status empty"}
	}
	return Health{}
}

// hindered says that the controller of the object was refused something lately.
func (w *World) hindered(k resource.Kind, obj resource.Object) bool {
	r, ok := w.denied(k.Info().GR(), obj)
	return ok && w.Now.Sub(r.Last) < refusedFor
}

// A custom condition is as much of a condition as all have.
type customCondition struct {
	Status, Reason, Message string
	Since                   time.Time
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
	out := map[string]customCondition{}
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
		c.Since, _ = time.Parse(time.RFC3339, text("lastTransitionTime"))
		out[text("type")] = c
	}
	return out
}
