package main

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestCoursesDrawn: the files can be read, and the same seed makes the same courses.
func TestCoursesDrawn(t *testing.T) {
	var list []course
	for _, file := range []string{"courses.yaml", "cluster.yaml", "loops.yaml", "metered.yaml"} {
		more, err := readCourses(file)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, more...)
	}
	names := map[string]bool{}
	for _, c := range list {
		if names[c.Name] || len(c.Begin) == 0 || len(c.Actions) == 0 {
			t.Errorf("course %q stands there twice, or has nothing to do", c.Name)
		}
		names[c.Name] = true
		once, again := c.draw(5, 4, 7), c.draw(5, 4, 7)
		if !reflect.DeepEqual(once, again) {
			t.Errorf("%s: another course with the same seed", c.Name)
		}
		for _, p := range once {
			for _, s := range slices.Concat(p.begin, p.steps) {
				method, path, _ := strings.Cut(s.Do, " ")
				if method == "WAIT" || method == "MEASURE" {
					continue
				}
				if !slices.Contains([]string{"GET", "POST", "PUT", "PATCH", "DELETE"}, method) || !strings.HasPrefix(path, "/api") {
					t.Errorf("%s: no request: %s", c.Name, s.Do)
				}
			}
		}
	}
	if len(list) < 30 {
		t.Errorf("only %d courses", len(list))
	}
}

// TestTalks: the files can be read, all words are filled in, and the same seed has the same talks.
func TestTalks(t *testing.T) {
	var list []course
	for _, file := range []string{"talks.yaml", "schemas.yaml", "doors.yaml", "guests.yaml"} {
		more, err := readCourses(file)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, more...)
	}
	for _, c := range list {
		once := c.draw(5, 6, 3)
		if !reflect.DeepEqual(once, c.draw(5, 6, 3)) {
			t.Errorf("%s: another talk with the same seed", c.Name)
		}
		for _, p := range once {
			for _, s := range slices.Concat(p.begin, p.steps) {
				if text := s.Do + string(encode(s)); len(c.Words) > 0 && regexp.MustCompile(`%[a-z]+%`).MatchString(text) {
					t.Errorf("%s: a word without a value: %s", c.Name, text)
				}
			}
		}
	}
}

// TestFill: a word alone becomes its value with its type, in a text its text, and null leaves the field out.
func TestFill(t *testing.T) {
	chosen := map[string]any{"%n%": 3, "%no%": nil, "%who%": "one"}
	tree := map[string]any{"a": "%n%", "b": "%no%", "c": []any{"%no%", "x%n%-%who%"}, "k%n%": true}
	if got := string(encode(fill(tree, chosen, false))); got != `{"a":3,"c":["x3-one"],"k3":true}` {
		t.Error(got)
	}
}

// TestInOrder: the order of owners and what servers make up are no difference.
func TestInOrder(t *testing.T) {
	shown := func(text string) any {
		a := answer{code: 200, text: text}
		if err := json.Unmarshal([]byte(text), &a.body); err != nil {
			t.Fatal(err)
		}
		return inOrder(a).body
	}
	a := shown(`{"metadata":{"name":"x-b7kzt","managedFields":[{"manager":"b"},{"manager":"a"}]}}`)
	b := shown(`{"metadata":{"name":"x-qqqqq","managedFields":[{"manager":"a"},{"manager":"b"}]}}`)
	if !reflect.DeepEqual(a, b) {
		t.Errorf("%v, %v", a, b)
	}
}

func podOf(set, hash, name, node string) map[string]any {
	return map[string]any{"metadata": map[string]any{"name": set + "-" + hash + "-" + name, "generateName": set + "-" + hash + "-",
		"labels": map[string]any{"pod-template-hash": hash}}, "spec": map[string]any{"nodeName": node}}
}

// TestScenes: what two clusters make up is the same in both, what they do is not.
func TestScenes(t *testing.T) {
	shown := func(raw map[string][]map[string]any) map[string][]any {
		names, all := generated(raw), map[string][]any{}
		for kind, list := range raw {
			for _, obj := range list {
				all[kind] = append(all[kind], plain(obj, names))
			}
		}
		return all
	}
	a := shown(map[string][]map[string]any{
		"pods": {podOf("web", "5d9f8c7b6d", "abcde", "stage-a"), podOf("web", "5d9f8c7b6d", "fghij", "stage-b")}})
	b := shown(map[string][]map[string]any{
		"pods": {podOf("web", "77f6b9c4d", "xxxxx", "stage-c"), podOf("web", "77f6b9c4d", "yyyyy", "stage-a")}})
	var all []string
	if scenes(a["pods"], b["pods"], "pods", &all); len(all) > 0 {
		t.Errorf("made up names differ: %q", all)
	}
	b["pods"] = b["pods"][:1]
	if scenes(a["pods"], b["pods"], "pods", &all); len(all) != 1 || !strings.HasPrefix(all[0], "2 → 1 pods") {
		t.Errorf("a pod less is not told: %q", all)
	}
	all = nil
	b["pods"] = append(b["pods"], map[string]any{"metadata": map[string]any{"name": "stray"}})
	if scenes(a["pods"], b["pods"], "pods", &all); len(all) == 0 {
		t.Error("another pod is not told")
	}
}

// TestManagers: who wrote a field matters, in which order and with which uid does not.
func TestManagers(t *testing.T) {
	entry := func(manager, uid string) any {
		return map[string]any{"manager": manager, "operation": "Update", "fieldsV1": map[string]any{
			"f:metadata": map[string]any{"f:ownerReferences": map[string]any{`k:{"uid":"` + uid + `"}`: map[string]any{}}}}}
	}
	shown := func(list ...any) string {
		return string(encode(plain(map[string]any{"managedFields": list}, strings.NewReplacer())))
	}
	one, two := "6f1d2b1c-0000-4000-8000-000000000001", "6f1d2b1c-0000-4000-8000-000000000002"
	a := shown(entry("x", one), entry("y", one))
	if b := shown(entry("y", two), entry("x", two)); a != b {
		t.Errorf("%s\n%s", a, b)
	}
	if b := shown(entry("z", one), entry("y", one)); a == b {
		t.Error("another manager is not told")
	}
}
