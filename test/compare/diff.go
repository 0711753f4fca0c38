package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// differences says in what two answers differ, each in words that hold for many questions.
func differences(a, b answer, texts bool) []string {
	var all []string
	if a.code == 0 && b.code != 0 {
		return []string{"broken off by the first: " + gist(b)}
	}
	if a.code != b.code {
		return []string{fmt.Sprintf("code %d → %d: %s → %s", a.code, b.code, gist(a), gist(b))}
	}
	if !slices.Equal(a.warnings, b.warnings) {
		for _, w := range a.warnings {
			if !slices.Contains(b.warnings, w) {
				all = append(all, "warning missing: "+template(w))
			}
		}
		for _, w := range b.warnings {
			if !slices.Contains(a.warnings, w) {
				all = append(all, "warning too many: "+template(w))
			}
		}
		if len(all) == 0 {
			all = append(all, "warnings in another order or number")
		}
	}
	if a.code >= 300 {
		return append(all, refusals(a, b, texts)...)
	}
	trees(settled(a.body), settled(b.body), "", &all)
	return all
}

// gist shortens an answer to a few words.
func gist(a answer) string {
	if a.code < 300 {
		return "taken"
	}
	if causes := causesOf(a); len(causes) > 0 {
		return strings.Join(causes, ", ")
	}
	if m, ok := a.body.(map[string]any); ok {
		return template(word(m, "reason") + ": " + word(m, "message"))
	}
	return template(a.text)
}

func causesOf(a answer) []string {
	m, _ := a.body.(map[string]any)
	details, _ := m["details"].(map[string]any)
	causes, _ := details["causes"].([]any)
	var all []string
	for _, c := range causes {
		all = append(all, strings.TrimPrefix(word(c, "reason"), "FieldValue")+" "+word(c, "field"))
	}
	return all
}

// refusals compares two statuses; the order of causes is a matter of texts.
func refusals(a, b answer, texts bool) []string {
	var all []string
	left, right := causesOf(a), causesOf(b)
	sortedLeft, sortedRight := slices.Sorted(slices.Values(left)), slices.Sorted(slices.Values(right))
	switch {
	case !slices.Equal(sortedLeft, sortedRight):
		all = append(all, fmt.Sprintf("causes [%s] → [%s]", strings.Join(left, ", "), strings.Join(right, ", ")))
	case texts && !slices.Equal(left, right):
		all = append(all, fmt.Sprintf("order of causes [%s] → [%s]", strings.Join(left, ", "), strings.Join(right, ", ")))
	}
	for _, path := range [][]string{{"reason"}, {"details", "name"}, {"details", "kind"}, {"details", "group"}, {"details", "uid"}} {
		if x, y := word(a.body, path...), word(b.body, path...); x != y {
			all = append(all, fmt.Sprintf("%s %q → %q", strings.Join(path, "."), x, y))
		}
	}
	if x, y := said(a), said(b); texts && len(all) == 0 && x != y {
		sort := "text"
		if beforeDump(x) == beforeDump(y) {
			sort = "dump"
		}
		all = append(all, fmt.Sprintf("%s %s → %s", sort, template(x), template(y)))
	}
	return all
}

func said(a answer) string {
	if m, ok := a.body.(map[string]any); ok {
		return made.ReplaceAllString(word(m, "message"), "*")
	}
	return a.text
}

var (
	made = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[0-9:.]+Z?|\b\d{2,}\.\d+s\b|resource version \d+|` +
		`ResourceVersion in record \(\d+\)|current: \d+`)
	quoted = regexp.MustCompile(`"([^"\\]|\\.)*"`)
	number = regexp.MustCompile(`\b\d+\b`)
	manyAs = regexp.MustCompile(`a{50,}`)
)

// template leaves out what is of one question alone.
func template(text string) string {
	text = manyAs.ReplaceAllString(quoted.ReplaceAllString(text, `"…"`), "a…")
	text = number.ReplaceAllString(text, "N")
	if r := []rune(text); len(r) > 600 {
		text = string(r[:600]) + "…"
	}
	return text
}

// settled is an object without what a server makes up.
func settled(v any) any {
	data, err := json.Marshal(v)
	if err != nil {
		return v
	}
	var copied any
	if json.Unmarshal(data, &copied) != nil {
		return v
	}
	settle(copied)
	return copied
}

var madeUp = map[string]bool{"uid": true, "resourceVersion": true, "creationTimestamp": true, "time": true,
	"clusterIP": true, "clusterIPs": true, "token": true, "nodePort": true, "healthCheckNodePort": true,
	"expirationTimestamp": true, "storageVersionHash": true, "continue": true}

func settle(v any) {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "description") // of a column; what kinds say of themselves is their own
		for name, one := range maps.Clone(v) {
			if renamed := age.ReplaceAllString(name, "age"); renamed != name {
				delete(v, name)
				v[renamed] = one
				name = renamed
			}
			if madeUp[name] && one != nil {
				v[name] = fmt.Sprintf("a %T", one)
				continue
			}
			if s, ok := one.(string); ok {
				v[name] = age.ReplaceAllString(made.ReplaceAllString(s, "*"), "age")
			}
			settle(one)
		}
	case []any:
		for i, one := range v {
			if s, ok := one.(string); ok {
				v[i] = given.ReplaceAllString(age.ReplaceAllString(made.ReplaceAllString(s, "*"), "age"), "given")
			}
			settle(one)
		}
	}
}

// given are addresses and ports that a server chose for a Service, as tables show them.
var given = regexp.MustCompile(`^10\.96\.\d+\.\d+$|:3[0-2]\d{3}/`)

var age = regexp.MustCompile(`^(\d+[ydhms]){1,3}$|kube-api-access-[a-z0-9]{5}`)

// trees adds the places where two trees differ.
func trees(a, b any, path string, all *[]string) {
	if reflect.DeepEqual(a, b) || len(*all) > 6 {
		return
	}
	if x, ok := a.(map[string]any); ok {
		if y, ok := b.(map[string]any); ok {
			names := maps.Clone(x)
			maps.Copy(names, y)
			for _, name := range slices.Sorted(maps.Keys(names)) {
				left, hasLeft := x[name]
				right, hasRight := y[name]
				switch {
				case !hasLeft:
					*all = append(*all, fmt.Sprintf("too much: %s.%s = %s", path, name, brief(right)))
				case !hasRight:
					*all = append(*all, fmt.Sprintf("missing: %s.%s = %s", path, name, brief(left)))
				default:
					trees(left, right, path+"."+name, all)
				}
			}
			return
		}
	}
	if x, ok := a.([]any); ok {
		if y, ok := b.([]any); ok && len(x) == len(y) {
			for i := range x {
				trees(x[i], y[i], path+"[]", all)
			}
			return
		}
	}
	*all = append(*all, fmt.Sprintf("%s: %s → %s", path, brief(a), brief(b)))
}

func brief(v any) string {
	text := string(encode(v))
	if len(text) > 200 {
		return text[:200] + "…"
	}
	return text
}
