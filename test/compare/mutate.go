package main

import (
	"maps"
	"slices"
	"strings"
)

// A mutation is one change of an object.
type mutation struct {
	path  []any // names and indexes
	value any
	unset bool
	what  string
}

const deepest = 9 // how far below the object fields are changed

// Fields that a server fills or that are the same for all kinds: one kind is enough to look at them.
var common = map[string]bool{"managedFields": true, "apiVersion": true, "kind": true, "selfLink": true}

// mutations lists changes of every field that the schema knows, in what tree has and one step beyond.
func mutations(s *schema, tree any) []mutation {
	m := &mutator{}
	m.walk(s.resolved(), tree, nil, 0)
	return m.all
}

type mutator struct{ all []mutation }

func (m *mutator) set(path []any, what string, value any) {
	m.all = append(m.all, mutation{path: slices.Clone(path), value: value, what: what})
}

// walk changes what lies at a path; absent counts the levels above that the object does not have.
func (m *mutator) walk(s *schema, tree any, path []any, absent int) {
	if len(path) > 0 {
		if tree != nil {
			m.all = append(m.all, mutation{path: slices.Clone(path), unset: true, what: "missing"})
		}
		for _, v := range values(s, tree) {
			m.set(path, v.what, v.value)
		}
	}
	if len(path) >= deepest || absent > 2 {
		return
	}
	if tree == nil {
		absent++
	}
	m.below(s, tree, path, absent)
}

func (m *mutator) below(s *schema, tree any, path []any, absent int) {
	switch {
	case len(s.Properties) > 0:
		have, _ := tree.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			if common[name] && (len(path) == 0 || path[0] == "metadata") || len(path) == 0 && name == "status" {
				continue
			}
			m.walk(s.child(s.Properties[name]), have[name], append(slices.Clone(path), name), absent)
		}
		m.set(append(slices.Clone(path), "bogusField"), "unknown", "x")
	case s.Type == "array":
		item := s.child(s.Items)
		have, _ := tree.([]any)
		if len(have) == 0 {
			m.walk(item, nil, append(slices.Clone(path), 0), absent)
			return
		}
		for i := range min(len(have), 2) {
			m.walk(item, have[i], append(slices.Clone(path), i), absent)
		}
		m.set(append(slices.Clone(path), len(have)), "one more, empty", empty(item))
	case s.Additional != nil:
		have, _ := tree.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(have))[:min(len(have), 1)] {
			m.walk(s.child(s.Additional), have[name], append(slices.Clone(path), name), absent)
		}
	}
}

// A value is something to put at a place.
type value struct {
	what  string
	value any
}

// odd are texts that are good in one place and bad in another.
var odd = []string{
	" ", " x", "x ", "Upper", "under_score", "-a", "a-", "a.b", "a..b", ".", "..", "a/b", "/a/b", "/a/../b", "../a", "a/..b", "..a", "./a",
	"/", "a/b/c", "0", "-1", "1", "65536", "1.5", "100m", "1Gi", "2Mi", "1k", "1e3", "99999999999999999999", "1.2.3.4", "01.2.3.4", "1.2.3",
	"::1", "::ffff:1.2.3.4", "a:b", "a=b", "a,b", "*", "$(A)", "é", "true", "true\n", "null", "http://h", "https://h/p",
	"2026-01-01T00:00:00Z", "kubernetes.io/x", "example.com/x", "metadata.name", "metadata.labels['x']", "spec.nodeName", "limits.cpu",
	"requests.hugepages-2Mi", "SIGTERM", "Localhost", "Unconfined", strings.Repeat("a", 16), strings.Repeat("a", 63),
	strings.Repeat("a", 64), strings.Repeat("a.", 126) + "a", strings.Repeat("a.", 127) + "a", strings.Repeat("a", 257),
	strings.Repeat("/a", 2100), "a_b", "ünï", "*.a.b", "a.b/c", "a.b/C", "10.0.0.0/8", "10.0.0.1/8", "2001:db8::/32", "https://x.example/y",
	"0.5", "v1", "30s", "self", "x=", "%2f", "k8s.io", "system:x", " a ", "a\nb",
}

var long = strings.Repeat("a", 300)

// values lists what to try in the place of old.
func values(s *schema, old any) []value {
	switch s.Type {
	case "string":
		return stringValues(s)
	case "integer", "number":
		return []value{{"zero", 0}, {"negative", -1}, {"one", 1}, {"two", 2}, {"port", 65536}, {"mode", 0o1000}, {"code", 256}, {"hour", 3600},
			{"large", 2147483647}, {"larger", 4294967296}, {"largest", int64(1) << 40}, {"text", "x"}, {"digits", "1"}, {"fraction", 1.5},
			{"whole fraction", 2.0}, {"null", nil}}
	case "int-or-string":
		return []value{{"zero", 0}, {"negative", -1}, {"port", 65536}, {"large", 4294967296}, {"percent", "30%"}, {"much", "101%"},
			{"zero percent", "0%"}, {"whole", "100%"}, {"minus", "-1%"}, {"word", "Bad_word"}, {"float", "1.5"}, {"fraction", 1.5}, {"null", nil},
			{"name", "http"}, {"dash", "a-b"}, {"two dashes", "a--b"}, {"long name", "abcdefghijklmnop"}, {"long", long}, {"empty", ""},
			{"number in text", "80"}, {"list", []any{}}}
	case "boolean":
		return []value{{"true", true}, {"false", false}, {"null", nil}, {"text", "true"}, {"number", 1}}
	case "array":
		list := []value{{"empty", []any{}}, {"of another type", "x"}, {"null", nil}, {"of null", []any{nil}}, {"of list", []any{[]any{}}}}
		if have, _ := old.([]any); len(have) > 0 {
			list = append(list, value{"doubled", append(slices.Clone(have), have[0])}, value{"of one", have[:1]})
		} else {
			one := empty(s.child(s.Items))
			list = append(list, value{"of empty", []any{one}}, value{"of two empty", []any{one, one}})
		}
		return list
	}
	if s.Additional != nil {
		return mapValues(s.child(s.Additional), old)
	}
	if len(s.Properties) > 0 || s.Type == "object" {
		return []value{{"empty", map[string]any{}}, {"null", nil}, {"of another type", "x"}}
	}
	return nil
}

func stringValues(s *schema) []value {
	switch s.Format {
	case "date-time":
		return []value{{"no time", "soon"}, {"a time", "2030-01-02T03:04:05Z"}, {"null", nil}, {"empty", ""}, {"zero", "0001-01-01T00:00:00Z"},
			{"fraction", "2030-01-02T03:04:05.123456Z"}, {"zone", "2030-01-02T03:04:05+02:00"}, {"date", "2030-01-02"}, {"number", 1}}
	case "byte":
		return []value{{"empty", ""}, {"bytes", "eA=="}, {"no base64", "%"}}
	}
	list := []value{{"empty", ""}, {"word", "other"}, {"malformed", "Bad_word!"}, {"long", long}, {"number", 7}, {"null", nil}}
	for _, one := range odd {
		list = append(list, value{"odd", one})
	}
	for _, e := range s.Enum {
		list = append(list, value{"word of the list", e})
	}
	return list
}

func mapValues(of *schema, old any) []value {
	one := empty(of)
	if of.Type == "string" || of.Type == "" {
		one = "x"
	}
	return []value{
		{"empty", map[string]any{}}, {"null", nil}, {"empty key", map[string]any{"": one}}, {"one key", map[string]any{"other": one}},
		{"malformed key", map[string]any{"bad key!": one}}, {"slashes in key", map[string]any{"a/b/c": one}},
		{"long key", map[string]any{long: one}}, {"malformed value", map[string]any{"other": "bad value!"}},
		{"number", map[string]any{"other": "1"}}, {"negative", map[string]any{"other": "-1"}},
	}
}

// empty is the least value of a schema.
func empty(s *schema) any {
	switch s.Type {
	case "string":
		return ""
	case "integer", "number", "int-or-string":
		return 0
	case "boolean":
		return false
	case "array":
		return []any{}
	}
	return map[string]any{}
}

// field is a path without its indexes.
func (m mutation) field() string {
	var b strings.Builder
	for _, p := range m.path {
		if name, ok := p.(string); ok {
			b.WriteString("." + name)
		} else {
			b.WriteString("[]")
		}
	}
	return strings.TrimPrefix(b.String(), ".")
}

// beside says whether two mutations are of different fields of the same part of the object.
func (m mutation) beside(other mutation) bool {
	n := len(m.path) - 1
	return n >= 0 && len(other.path) == n+1 && m.path[n] != other.path[n] && slices.Equal(m.path[:n], other.path[:n])
}

// apply makes a changed copy of a tree. Levels that are not there are made.
func (m mutation) apply(tree any) any { return change(tree, m.path, m.value, m.unset) }

func change(tree any, path []any, value any, unset bool) any {
	if len(path) == 0 {
		return value
	}
	switch at := path[0].(type) {
	case string:
		have, _ := tree.(map[string]any)
		next := maps.Clone(have)
		if next == nil {
			next = map[string]any{}
		}
		if unset && len(path) == 1 {
			delete(next, at)
			return next
		}
		next[at] = change(next[at], path[1:], value, unset)
		return next
	case int:
		have, _ := tree.([]any)
		next := slices.Clone(have)
		for len(next) <= at {
			next = append(next, nil)
		}
		if unset && len(path) == 1 {
			return slices.Delete(next, at, at+1)
		}
		next[at] = change(next[at], path[1:], value, unset)
		return next
	}
	return tree
}
