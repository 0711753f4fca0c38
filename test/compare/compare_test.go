package main

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func widget() *schema {
	text := &schema{Type: "string"}
	return &schema{Type: "object", Properties: map[string]*schema{
		"kind": text, "metadata": {Type: "object", Properties: map[string]*schema{"name": text, "managedFields": {Type: "array", Items: text}}},
		"spec": {Type: "object", Properties: map[string]*schema{"size": {Type: "integer"},
			"parts": {Type: "array", Items: &schema{Ref: "#/x/part"}},
			"tags":  {Type: "object", Additional: text}}},
		"status": {Type: "object", Properties: map[string]*schema{"phase": text}},
	}, in: map[string]*schema{"part": {Type: "object", Properties: map[string]*schema{"name": text, "parts": {Ref: "#/x/part"}}}}}
}

func TestMutations(t *testing.T) {
	tree := map[string]any{"kind": "Widget", "metadata": map[string]any{"name": "a"}, "spec": map[string]any{"size": 1.0}}
	seen := map[string]bool{}
	for _, m := range mutations(widget(), tree) {
		seen[m.field()+" "+m.what] = true
		m.apply(tree)
	}
	for _, want := range []string{"spec.size negative", "spec.size missing", "spec.parts of two empty", "spec.parts[].name long",
		"metadata.name malformed",
		"spec.parts[].parts.name word", "spec.tags malformed key", "spec.bogusField unknown", "bogusField unknown"} {
		if !seen[want] {
			t.Errorf("no mutation %q", want)
		}
	}
	for _, never := range []string{"kind empty", "status.phase empty", "metadata.managedFields empty"} {
		if seen[never] {
			t.Errorf("mutation %q of what is the server's", never)
		}
	}
	if want := `{"kind":"Widget","metadata":{"name":"a"},"spec":{"size":1}}`; string(encode(tree)) != want {
		t.Errorf("the seed was changed: %v", tree)
	}
}

func TestApply(t *testing.T) {
	tree := map[string]any{"a": []any{map[string]any{"b": 1}, 2}}
	for _, c := range []struct {
		name string
		m    mutation
		want string
	}{
		{"in a list", mutation{path: []any{"a", 0, "b"}, value: 3}, `{"a":[{"b":3},2]}`},
		{"at its end", mutation{path: []any{"a", 2}, value: 3}, `{"a":[{"b":1},2,3]}`},
		{"out of a list", mutation{path: []any{"a", 1}, unset: true}, `{"a":[{"b":1}]}`},
		{"in an object that was not there", mutation{path: []any{"c", "d"}, value: true}, `{"a":[{"b":1},2],"c":{"d":true}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := string(encode(c.m.apply(tree))); got != c.want {
				t.Errorf("%v: %s, want %s", c.m, got, c.want)
			}
		})
	}
	op := mutation{path: []any{"a", 0, "x/y~z"}, value: 1}.operation()
	if op["path"] != "/a/0/x~1y~0z" || op["op"] != "add" {
		t.Errorf("operation %v", op)
	}
}

func TestDirectives(t *testing.T) {
	text := &schema{Type: "string"}
	item := &schema{Type: "object", Properties: map[string]*schema{"name": text, "args": {Type: "array", Items: text}}}
	of := &schema{Type: "object", Properties: map[string]*schema{"spec": {Type: "object", Properties: map[string]*schema{
		"items": {Type: "array", Items: item, MergeKey: "name"}}}}}
	tree := map[string]any{"spec": map[string]any{"items": []any{map[string]any{"name": "a", "args": []any{"x"}}}}}
	seen := map[string]bool{}
	for _, m := range directives(of, tree) {
		seen[string(encode(m.apply(map[string]any{})))] = true
	}
	for _, want := range []string{
		`{"spec":{"$patch":"delete"}}`, `{"spec":{"items":[{"$patch":"delete","name":"a"}]}}`,
		`{"spec":{"$setElementOrder/items":[{"name":"zz"},{"name":"a"}]}}`,
		`{"spec":{"items":[{"$deleteFromPrimitiveList/args":["x"],"name":"a"}]}}`,
	} {
		if !seen[want] {
			t.Errorf("no %s", want)
		}
	}
}

func TestLists(t *testing.T) {
	s := stored{place: place{verbs: []string{"deletecollection"}}, path: "/api/v1/nodes/a", a: map[string]any{
		"metadata": map[string]any{"name": "a"}}}
	for _, q := range lists(s) {
		if q.method == "DELETE" && !strings.Contains(q.path, "dryRun=All") {
			t.Errorf("%s %s is no dry run", q.method, q.path)
		}
		if strings.HasPrefix(q.path, "/api/v1/nodes?") && !strings.Contains(q.path, "fieldSelector") {
			t.Errorf("%s asks for others' objects", q.path)
		}
	}
}

func TestSameQuestions(t *testing.T) {
	p := &plan{most: 5, seed: 1, only: regexp.MustCompile("")}
	all := mutations(widget(), map[string]any{})
	a, b := p.some("x", all), p.some("x", all)
	if !reflect.DeepEqual(a, b) || len(a) != 7 { // one pair of any two, and one of fields beside each other
		t.Errorf("%d and %d questions, not the same", len(a), len(b))
	}
}

func TestDifferences(t *testing.T) {
	status := func(causes ...string) answer {
		var list []any
		for _, c := range causes {
			reason, field, _ := strings.Cut(c, " ")
			list = append(list, map[string]any{"reason": "FieldValue" + reason, "field": field})
		}
		return answer{code: 422, body: map[string]any{"reason": "Invalid", "message": causes[0], "details": map[string]any{"causes": list}}}
	}
	object := func(name string, v any) answer {
		return answer{code: 200, body: map[string]any{"metadata": map[string]any{"uid": name}, "spec": map[string]any{"v": v}}}
	}
	for _, c := range []struct {
		name  string
		a, b  answer
		texts bool
		want  []string
	}{
		{"made up", object("a", 1), object("b", 1), true, nil},
		{"value", object("a", 1), object("b", 2), false, []string{".spec.v: 1 → 2"}},
		{"code", object("a", 1), status("Invalid spec"), false, []string{"code 200 → 422: taken → Invalid spec"}},
		{"order", status("Invalid a", "Invalid b"), status("Invalid b", "Invalid a"), false, nil},
		{"order told", status("Invalid a", "Invalid b"), status("Invalid b", "Invalid a"), true,
			[]string{"order of causes [Invalid a, Invalid b] → [Invalid b, Invalid a]"}},
		{"broken off", answer{text: "EOF"}, object("a", 1), false, []string{"broken off by the first: taken"}},
		{"number", status("Invalid a", "Invalid a"), status("Invalid a"), false, []string{"causes [Invalid a, Invalid a] → [Invalid a]"}},
		{"warning", answer{code: 200, warnings: []string{`299 - "x"`}}, answer{code: 200}, false, []string{`warning missing: N - "…"`}},
	} {
		if got := differences(c.a, c.b, c.texts); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestReport(t *testing.T) {
	r := &report{}
	for _, field := range []string{"a", "b", "c", "d"} {
		r.add(trial{kind: "Widget", verb: "create", field: field, what: "empty"}, answer{code: 200}, answer{code: 500})
	}
	r.add(trial{kind: "Widget"}, answer{code: 200}, answer{code: 200})
	var b strings.Builder
	r.print(&b)
	said := strings.HasPrefix(b.String(), "    4 Widget/create: code 200 → 500") && strings.Contains(b.String(), "and 1 more")
	if !said || r.asked != 5 || r.differ != 4 {
		t.Errorf("%d of %d: %s", r.differ, r.asked, b.String())
	}
}

func TestRanks(t *testing.T) {
	for _, c := range []struct{ name, difference, want string }{
		{"code", "code 200 → 422: taken → Invalid spec", "code"},
		{"order", "order of causes [Invalid a, Invalid b] → [Invalid b, Invalid a]", "order of causes"},
		{"owners", "missing: .metadata.managedFields[].time = 1", "owners"},
		{"field", ".spec.v: 1 → 2", "bodies"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := ranks[rank(c.difference)].name; got != c.want {
				t.Errorf("%s is of %q, want %q", c.difference, got, c.want)
			}
		})
	}
	refused := func(message string) answer { return answer{code: 422, body: map[string]any{"message": message}} }
	a, b := refused("spec: Forbidden: core.PodSpec{Volumes:nil}"), refused("spec: Forbidden: core.PodSpec{}")
	if got := differences(a, b, true); len(got) != 1 || ranks[rank(got[0])].name != "words of a dump" {
		t.Errorf("dumps differ by %q", got)
	}
}

func TestSeeds(t *testing.T) {
	const tests = "../../kinds/testdata/"
	for _, file := range []string{"seeds.yaml", "pods.yaml", "guarded.yaml", tests + "validation.yaml", tests + "defaults.yaml"} {
		seeds, err := readSeeds(file)
		if err != nil || len(seeds) < 20 {
			t.Errorf("%s: %d seeds, %v", file, len(seeds), err)
		}
	}
}
