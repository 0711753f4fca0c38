package words

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/resource"
)

// Tree is an object of a kind that users defined, as a tree.
func Tree(obj resource.Object) (map[string]any, bool) {
	u, ok := obj.(interface{ UnstructuredContent() map[string]any })
	if !ok {
		return nil, false
	}
	return u.UnstructuredContent(), true
}

// SaysWell says that a status says that all is well with the whole, by a condition or a word.
func SaysWell(status map[string]any) bool {
	for typ, c := range ConditionsIn(status) {
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
		if word := String(at, field[len(field)-1]); word != "" {
			return slices.Contains(wellWords, strings.ToLower(word))
		}
	}
	return false
}

// tryAt finds names of fields that say when somebody tries again.
var tryAt = pattern.New(`(?i)^next_?(re)?(try|attempt|reconcile|sync|poll|check|reconnect)|^retry_?(at|time|after)|^backoff_?until`)

// NextTry is the time at which, by a status, somebody tries again; zero: it has none.
func NextTry(status map[string]any) time.Time {
	for _, field := range slices.Sorted(maps.Keys(status)) {
		if at, err := time.Parse(time.RFC3339, String(status, field)); err == nil && tryAt.MatchString(field) {
			return at
		}
	}
	return time.Time{}
}

// A custom condition is as much of a condition as all have.
type CustomCondition struct {
	Status, Reason, Message string
	At                      string
	Severity                string // as the Cluster API has it: how much it matters that the status is False
}

// Since says since when it holds; zero: that is not known.
func (c CustomCondition) Since() time.Time {
	t, _ := time.Parse(time.RFC3339, c.At)
	return t
}

// ConditionsIn are the conditions of a status by their type.
func ConditionsIn(status map[string]any) map[string]CustomCondition {
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
	out := make(map[string]CustomCondition, len(list))
	for _, item := range list {
		m, ok := item.(map[string]any)
		if !ok {
			continue
		}
		text := func(key string) string { s, _ := m[key].(string); return s }
		c := CustomCondition{Status: text("status"), Reason: text("reason"), Message: text("message"), Severity: text("severity")}
		if parts, _ := m["errors"].([]any); len(parts) > 0 { // Contour's conditions have more of them inside
			if part, _ := parts[0].(map[string]any); part["message"] != nil {
				c.Message = fmt.Sprint(part["message"])
			}
		}
		if strings.Contains(c.Reason, " ") && len(c.Reason) > len(c.Message) && !strings.Contains(c.Reason, c.Message) {
			// a sentence, as ACK's
			c.Message = strings.TrimPrefix(c.Message+": "+c.Reason, ": ")
		}
		c.At = text("lastTransitionTime")
		out[text("type")] = c
	}
	return out
}
