package causes

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/mentions"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
)

// What one object may have is often listed in another, as an AppProject has the repositories of its Applications.

var (
	// barredBy finds words by which something is not among what another object allows, and the kind and name of that.
	barredBy = pattern.New(`(?i)\b(?:not (?:permitted|allowed|authorized)|(?:do|does) not match any(?: of the allowed)?|isn't allowed)` +
		`[^.;]*? (?:in|by|of) (?:the )?([a-z]+) \\?['"\x60]?([a-z0-9][a-z0-9.-]*)`)
	// kindBarred finds the kind of what is refused.
	kindBarred = pattern.New(`\b([a-z0-9.-]*):([A-Z][A-Za-z]+) is not (?:permitted|allowed)`)
	// capital finds where the next word of a field begins.
	capital = pattern.New(`[A-Z]`)
)

// disallowed advises to add what is refused to the list of the object that does not allow it.
func disallowed(l *converge.Look, f *converge.Finding, tree map[string]any, message string) {
	unlistedSpace(l, f, tree, message)
	m := barredBy.FindStringSubmatch(message)
	if m == nil || len(f.Below) > 0 {
		return
	}
	for _, k := range append(mentions.Of(l).KindsBy(m[1], "", "", true), general.OwnEnding(l, m[1])...) {
		r := converge.Ref{Kind: k, NS: l.Obj.GetNamespace(), Name: m[2]}
		obj := l.Read.Lookup(k, r.NS, r.Name)
		by, custom := words.Tree(obj)
		if obj == nil || !custom {
			continue
		}
		spec, _ := by["spec"].(map[string]any)
		field, add := unlisted(spec, tree["spec"], message)
		if field == "" {
			return
		}
		f.State, f.Waits = converge.Blocked, converge.On("Field", r, "spec."+field)
		f.Next = converge.PersonDoes("lets %s allow it, or changes what is asked for; %s goes on then", r.Kind.Info().Singular+"/"+r.Name,
			f.Owner)
		f.Advice = append([]string{"have " + r.Kind.Info().Singular + "/" + r.Name + " allow it: kubectl patch " + r.Called() +
			` --type=json -p '[{"op":"add","path":"/spec/` + field + `/-","value":` + add + "}]'"}, f.Advice...)
		return
	}
}

// barredFrom finds words by which another object may not be used from a namespace.
var barredFrom = pattern.New(`(?i)\b(?:not (?:permitted|allowed|authorized)|denied|isn't allowed|may not be used)\b[^.;]*? ` +
	`namespace \\?['"\x60]?([a-z0-9-]+)`)

// unlistedSpace advises to add the namespace of an object to the list of those from which what it names may be used.
func unlistedSpace(l *converge.Look, f *converge.Finding, tree map[string]any, message string) {
	m := barredFrom.FindStringSubmatch(message)
	if m == nil || m[1] != l.Obj.GetNamespace() || len(f.Below) > 0 || f.State == converge.Blocked {
		return
	}
	for _, by := range mentions.Of(l).Mentions(tree) {
		other, custom := words.Tree(by.Obj)
		if by.Obj == nil || !custom {
			continue
		}
		path, list := "", map[string]bool{}
		converge.Paths(by.Obj, func(at, text string) bool {
			stem, _, is := cutLast(at)
			if is && strings.HasSuffix(strings.ToLower(stem), "namespaces") && (path == "" || path == stem) {
				path, list[text] = stem, true
			}
			return false
		})
		if path == "" || list[m[1]] || other == nil {
			continue
		}
		name := new(converge.ObjectOf(by.Kind, by.Obj)).Short()
		f.Says += "; " + name + " has in " + strings.ReplaceAll(path[1:], "/", ".") + " " + words.List(slices.Sorted(maps.Keys(list)), 3)
		f.State, f.Waits = converge.Blocked, converge.On("Field", by.Ref, strings.ReplaceAll(path[1:], "/", "."))
		f.Next = converge.PersonDoes("lets %s be used from there; %s goes on then", name, f.Owner)
		f.Advice = []string{"have " + name + " allow it: " + converge.Patched(by.Ref, converge.Add(path+"/-", m[1]))}
		return
	}
}

// cutLast cuts a pointer before its last part, if that is a number.
func cutLast(path string) (stem, last string, isIndex bool) {
	at := strings.LastIndexByte(path, '/')
	if at < 0 {
		return "", path, false
	}
	_, err := strconv.Atoi(path[at+1:])
	return path[:at], path[at+1:], err == nil
}

// unlisted is the list of a spec that words speak of, and the item, as JSON, that another spec asks to be in it; "": there is none.
func unlisted(spec map[string]any, own any, message string) (field, item string) {
	low := strings.ToLower(message)
	for _, field := range slices.Sorted(maps.Keys(spec)) {
		list, _ := spec[field].([]any)
		parts := strings.Fields(capital.ReplaceAllString(strings.TrimSuffix(field, "s"), " $0"))
		if len(list) == 0 || strings.HasSuffix(strings.ToLower(field), "blacklist") || !slices.ContainsFunc(parts, func(p string) bool {
			return len(p) > 3 && words.StandsIn(low, strings.ToLower(strings.TrimSpace(p)))
		}) {
			continue
		}
		var value any
		switch first := list[0].(type) {
		case string:
			longest := ""
			for _, v := range textsOf("", own, 0) {
				if strings.Contains(message, v[1]) && len(v[1]) > len(longest) {
					longest = v[1]
				}
			}
			if value = longest; longest == "" {
				continue
			}
		case map[string]any:
			made := map[string]string{}
			for _, v := range textsOf("", own, 0) {
				if first[v[0]] != nil && strings.Contains(message, v[1]) {
					made[v[0]] = v[1]
				}
			}
			if m := kindBarred.FindStringSubmatch(message); m != nil && first["group"] != nil && first["kind"] != nil {
				made = map[string]string{"group": m[1], "kind": m[2]}
			}
			if value = made; len(made) == 0 {
				continue
			}
		}
		if text, err := json.Marshal(value); err == nil && value != nil && !strings.ContainsAny(string(text), "'") {
			return field, string(text)
		}
	}
	return "", ""
}

// textsOf are the texts of a spec, each behind the field that has it.
func textsOf(field string, v any, depth int) (list [][2]string) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if depth < converge.MaxDepth {
				list = append(list, textsOf(name, v[name], depth+1)...)
			}
		}
	case []any:
		for _, item := range v {
			if depth < converge.MaxDepth {
				list = append(list, textsOf(field, item, depth+1)...)
			}
		}
	case string:
		list = append(list, [2]string{field, v})
	}
	return list
}

// activeOf finds an object that a controller looked for, by its kind and name, and of which it tells what it did not find.
var activeOf = pattern.New(`\b([A-Z][A-Za-z]+) \\?"([a-z0-9][a-z0-9.-]*)\\?": (?:cannot|could not|can't|unable to) find`)

// lackActive has a person make what a controller looked for by kind and name, or call it by its right name, if it is not there at
// all.
func lackActive(l *converge.Look, f *converge.Finding, message string) {
	m := activeOf.FindStringSubmatch(message)
	if m == nil || len(f.Below) > 0 || f.State == converge.Blocked {
		return
	}
	for _, k := range l.Kinds.All() {
		ns := l.Obj.GetNamespace()
		if !k.Info().Namespaced {
			ns = ""
		}
		if !k.Info().Custom || k.Info().GVK.Kind != m[1] || !l.Sees(k, ns) || l.Read.Lookup(k, ns, m[2]) != nil {
			continue
		}
		f.Waits, f.State = converge.On("Object", converge.Ref{Kind: k, NS: ns, Name: m[2]}, ""), converge.Blocked
		f.Says += "; " + f.Waits.On.Short() + " does not exist"
		f.Next = converge.PersonDoes("makes %s, or names another one; %s goes on then", f.Waits.On.Short(), f.Owner)
		return
	}
}
