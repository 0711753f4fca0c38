package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

// keep applies the record options of a step to a reduced body.
func (n *normalizer) keep(v any, r Record) any {
	switch r.Mode {
	case "none":
		return nil
	case "names":
		m, _ := v.(map[string]any)
		var names []any // null, not empty, where there are none
		names = append(names, getAll(m, "items[*].metadata.name")...)
		v = map[string]any{"apiVersion": m["apiVersion"], "kind": m["kind"], "names": names}
	case "shape":
		return shape(v)
	case "openapi":
		v = schemaFacts(v)
	case "paths":
		v = pathFacts(v)
	case "events":
		v = n.events(v)
	}
	if r.At != "" {
		got := getAll(v, r.At)
		if len(got) == 0 {
			return "<absent>"
		}
		v = got[0]
	}
	if r.Drop != "" {
		v = dropMatching(v, regexp.MustCompile(r.Drop))
	}
	m, _ := v.(map[string]any)
	if r.Mode == "keys" {
		keys := []any{}
		for _, k := range sortedKeys(m) {
			keys = append(keys, k)
		}
		return keys
	}
	if m["kind"] == "Status" && r.At == "" {
		return v
	}
	return n.fields(v, r)
}

// fields keeps the fields of an object, or of each in a list, that a step records.
func (n *normalizer) fields(v any, r Record) any {
	if len(r.Pick) > 0 {
		v = each(v, r.pick)
	}
	for _, p := range append(append([]string{}, n.s.Omit...), r.Omit...) {
		v = each(v, func(o any) any { return unsetPath(o, parsePath(p)) })
	}
	for _, p := range r.Unordered {
		for _, g := range getAll(v, p) {
			if l, ok := g.([]any); ok {
				copy(l, n.sorted(l).([]any))
			}
		}
	}
	return v
}

// each changes an object, or the items of a list. What is no object stays.
func each(v any, f func(any) any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	l, ok := m["items"].([]any)
	if !ok {
		return f(v)
	}
	for i := range l {
		l[i] = f(l[i])
	}
	return v
}

// pick returns what an object has at the paths that are recorded.
func (r Record) pick(o any) any {
	picked := map[string]any{}
	for _, p := range r.Pick {
		if got := getAll(o, p); len(got) == 1 && !strings.Contains(p, "*") {
			picked[p] = got[0]
		} else if len(got) > 0 {
			picked[p] = got
		}
	}
	return picked
}

// dropMatching removes list elements and map entries that mention re.
func dropMatching(v any, re *regexp.Regexp) any {
	switch t := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range t {
			if !re.MatchString(k) {
				out[k] = dropMatching(e, re)
			}
		}
		return out
	case []any:
		out := []any{}
		for _, e := range t {
			switch x := e.(type) {
			case string:
				if re.MatchString(x) {
					continue
				}
			case map[string]any:
				if name, _ := x["name"].(string); re.MatchString(name) {
					continue
				}
			}
			out = append(out, dropMatching(e, re))
		}
		return out
	}
	return v
}

// events reduces a list of Events to the set of what happened to which kind.
func (n *normalizer) events(v any) any {
	set := map[string]any{}
	for _, e := range getAll(v, "items[*]") {
		f := map[string]any{}
		for _, p := range []string{"type", "reason", "involvedObject.kind", "regarding.kind",
			"source.component", "reportingComponent", "reportingController"} {
			if got := getAll(e, p); len(got) > 0 && got[0] != "" {
				f[p] = got[0]
			}
		}
		set[mustJSON(f)] = f
	}
	out := []any{}
	for _, k := range sortedKeys(set) {
		out = append(out, set[k])
	}
	return out
}

// shape replaces every leaf by the name of its JSON type.
func shape(v any) any {
	switch t := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range t {
			out[k] = shape(e)
		}
		return out
	case []any:
		if len(t) == 0 {
			return []any{}
		}
		return []any{shape(t[0])}
	case string:
		return "string"
	case float64:
		return "number"
	case bool:
		return "boolean"
	}
	return "null"
}

// schemaFacts drops descriptions from an OpenAPI document. A property whose
// own name is description is kept.
func schemaFacts(v any) any {
	switch t := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range t {
			if _, isText := e.(string); isText && k == "description" {
				continue
			}
			out[k] = schemaFacts(e)
		}
		return out
	case []any:
		out := make([]any, len(t))
		for i, e := range t {
			out[i] = schemaFacts(e)
		}
		return out
	}
	return v
}

// pathFacts lists the operations of an OpenAPI v3 document.
func pathFacts(v any) any {
	out := map[string]any{}
	paths, _ := getAll(v, "paths")[0].(map[string]any)
	for p, item := range paths {
		ops := map[string]any{}
		shared := getAll(item, "parameters.name")
		for method, op := range item.(map[string]any) {
			if method == "parameters" || method == "description" {
				continue
			}
			f := map[string]any{}
			for _, k := range []string{"x-kubernetes-action", "x-kubernetes-group-version-kind", "deprecated"} {
				if got := getAll(op, k); len(got) > 0 {
					f[k] = got[0]
				}
			}
			params := map[string]bool{}
			for _, name := range append(getAll(op, "parameters.name"), shared...) {
				params[scalar(name)] = true
			}
			f["parameters"] = sortedKeys(params)
			for name, path := range map[string]string{
				"consumes": "requestBody.content", "responses": "responses", "produces": "responses.200.content",
			} {
				if got := getAll(op, path); len(got) > 0 {
					if m, ok := got[0].(map[string]any); ok {
						f[name] = sortedKeys(m)
					}
				}
			}
			ops[method] = f
		}
		out[p] = ops
	}
	var clean any
	_ = json.Unmarshal([]byte(mustJSON(out)), &clean)
	return clean
}

// finish numbers the tokens over the whole transcript and ranks the resource versions.
func (n *normalizer) finish(steps []any) []any {
	n.numbering = true
	found := map[string]bool{}
	marks(steps, found)
	versions := sortedKeys(found)
	sort.SliceStable(versions, func(i, j int) bool {
		a, _ := strconv.ParseUint(versions[i], 10, 64)
		b, _ := strconv.ParseUint(versions[j], 10, 64)
		return a < b
	})
	rank := map[string]string{}
	for i, r := range versions {
		rank[r] = fmt.Sprintf("<rv-%d>", i+1)
	}
	out, _ := n.replaced(steps, rank).([]any)
	return out
}

// marks finds the resource versions in a tree.
func marks(v any, found map[string]bool) {
	switch t := v.(type) {
	case map[string]any:
		for _, e := range t {
			marks(e, found)
		}
	case []any:
		for _, e := range t {
			marks(e, found)
		}
	case string:
		if r, ok := strings.CutPrefix(t, rvMark); ok {
			found[r] = true
		}
	}
}

// replaced returns the tree with ranks in the place of resource versions, and tokens in that of what the server made up.
func (n *normalizer) replaced(v any, rank map[string]string) any {
	switch t := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(t))
		for _, k := range sortedKeys(t) {
			out[n.str(k)] = n.replaced(t[k], rank)
		}
		return out
	case []any:
		out := make([]any, len(t))
		for i, e := range t {
			out[i] = n.replaced(e, rank)
		}
		return out
	case string:
		if r, ok := strings.CutPrefix(t, rvMark); ok {
			return rank[r]
		}
		if p, ok := strings.CutPrefix(t, "\x02port"); ok {
			return n.token("nodeport", p)
		}
		return n.str(t)
	}
	return v
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
