package general

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/mentions"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/resource"
)

// What a controller says that it can't find mostly stands in the spec, in whichever field and form the kind has for it: the word before it
// in the sentence says of which kind it is, the field beside it in which namespace.

// A value is a text of a spec, where it stands, and the namespace that stands beside it.
type value struct{ path, text, ns, key string }

// label finds what can be the name of a namespace.
var label = pattern.New(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// values are the texts of a spec.
func values(path string, v any, depth int) (list []value) {
	switch v := v.(type) {
	case map[string]any:
		for _, field := range slices.Sorted(maps.Keys(v)) {
			at := path + "." + field
			if text, is := v[field].(string); is {
				ns := words.String(v, strings.TrimSuffix(field, "Name")+"Namespace")
				if strings.Contains(path, ".") {
					ns = cmp.Or(ns, words.String(v, "namespace"))
				}
				list = append(list, value{at, text, ns, words.String(v, "key")})
				if in, name, is := strings.Cut(text, "/"); is && ns == "" && label.MatchString(in) && label.MatchString(name) {
					list = append(list, value{at, name, in, ""}) // as channel: ns/name
				}
			} else if depth < converge.MaxDepth {
				list = append(list, values(at, v[field], depth+1)...)
			}
		}
	case []any:
		for _, item := range v {
			if text, is := item.(string); is {
				list = append(list, value{path: path + "[]", text: text})
			} else if depth < converge.MaxDepth {
				list = append(list, values(path+"[]", item, depth+1)...)
			}
		}
	}
	return list
}

// lackValue has a person make what stands in the spec and, by the controller's words, was looked for in vain, if it is not there.
func lackValue(l *converge.Look, f *converge.Finding, tree map[string]any, message string) bool {
	if len(f.Below) > 0 || f.State == converge.Blocked || !inVain.MatchString(message) {
		return false
	}
	s := mentions.Of(l)
	for _, v := range values("spec", tree["spec"], 0) {
		if strings.Contains(v.path, ".remoteRef.") { // that is at the other side
			continue
		}
		at := placeIn(message, v.text)
		if at >= 0 && v.key != "" && keyless(l, f, kindsBefore(s, message[:at]), &v) {
			return true
		}
		if at < 0 || len(v.text) < 2 || !goneAfter.MatchString(message[at+len(v.text):]) && !soughtBefore.MatchString(message[:at]) {
			continue
		}
		for _, k := range kindsBefore(s, message[:at]) {
			if k.Info().GVK.Group == "rbac.authorization.k8s.io" { // a role is more often one of a database
				continue
			}
			if k.Info().GR() == l.Kind.Info().GR() && converge.OfOwn(tree, v.text) { // it means a part of the spec itself
				continue
			}
			if lacks(l, f, k, &v, inNamespace(message[at:])) {
				return true
			}
		}
	}
	return false
}

var (
	// goneAfter and soughtBefore find the words by which a name was looked for in vain, after it and before it.
	goneAfter    = pattern.New(`(?i)^['"\x60\])\\]*[^'"\x60;,]{0,50}?\b(not (be )?found|n[o']t exist|missing|not present)`)
	soughtBefore = pattern.New(`(?i)(failed to|unable to|cannot|can't|could not) (locate|find|get|fetch|read|retrieve) ` +
		`[^'"\x60;,]{0,40}['"\x60]?$|\b(no such|missing) [^'"\x60;,]{0,30}['"\x60]?$`)
)

// placeIn finds where a text stands in words as it is; -1: nowhere.
func placeIn(message, text string) int {
	if !words.StandsIn(message, text) {
		return -1
	}
	return strings.Index(message, text)
}

// lacks says that an object that a spec names is not there, and has a person make it.
func lacks(l *converge.Look, f *converge.Finding, k resource.Kind, v *value, told string) bool {
	ns := cmp.Or(v.ns, told, l.Obj.GetNamespace())
	if !k.Info().Namespaced {
		ns = ""
	}
	if !l.Sees(k, ns) {
		return false
	}
	names := "; it names " + k.Info().Singular + "/" + v.text + " in " + v.path
	if ns == "" && k.Info().Namespaced { // of the whole cluster: its controller knows where it looks
		in := ""
		for obj := range l.Read.Each(k, "") {
			if obj.GetName() == v.text && l.Sees(k, obj.GetNamespace()) {
				in = obj.GetNamespace()
				break
			}
		}
		f.Says += names + ", which is in no namespace"
		f.State, f.Next = converge.Blocked, converge.PersonDoes("makes it where %s looks for it; that goes on then", f.Owner)
		help := "make it in the namespace where its controller looks, mostly its own"
		if in != "" {
			f.Says = strings.TrimSuffix(f.Says, "is in no namespace") + "is in namespace " + in + ", where its controller seems not to look"
			if _, program := programAt(l.World, l.Kind, f.Owner); program != nil && program.GetNamespace() != in {
				f.Advice = append([]string{converge.Copy(converge.Ref{Kind: k, NS: in, Name: v.text}, program.GetNamespace())}, f.Advice...)
				return true
			}
		}
		f.Advice = append([]string{help + "; those that there are: kubectl get " + k.Info().GR().String() + " -A"}, f.Advice...)
		return true
	}
	r := converge.Ref{Kind: k, NS: ns, Name: v.text}
	if l.Read.Lookup(k, ns, v.text) != nil || k == l.Kind && strings.HasSuffix(v.path, ".name") {
		return false
	}
	f.Waits, f.State = converge.On("Object", r, ""), converge.Blocked
	f.Says += names
	if ns != "" && ns != l.Obj.GetNamespace() {
		f.Says += " of namespace " + ns
	}
	f.Says += ", which does not exist"
	f.Next = converge.PersonDoes("makes %s, or names another one; %s goes on then", f.Waits.On.Short(), f.Owner)
	return true
}

var (
	// kindWords finds the words at the end of a text: two, for kinds are called config map too.
	kindWords = pattern.New(`([A-Za-z]+)?[ -]?\b([A-Za-z]+(?:\.[a-z0-9.-]+)?)[\s:'"\x60(=/\\]*` +
		`(?:named |name |of name |[a-z0-9-]+/)?[\s:'"\x60(=\\]*$`)
	// toldWhere finds the namespace that words give after a name.
	toldWhere = pattern.New(`^[^;,.]{0,80}?\b(?:in|of|from) (?:the )?namespace:? ['"\x60]?([a-z0-9-]+)`)
)

func inNamespace(rest string) string {
	if m := toldWhere.FindStringSubmatch(rest); m != nil {
		return m[1]
	}
	return ""
}

// kindsBefore are the kinds that the words at the end of a text name.
func kindsBefore(s *mentions.Search, text string) []resource.Kind {
	m := kindWords.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	word, group, _ := strings.Cut(m[2], ".")
	for _, name := range []string{m[1] + word, word, m[1]} {
		if name == "" || name == m[1] && !slices.Contains([]string{"instance", "resource", "object", "cluster"}, word) {
			continue // as keycloak instance kc
		}
		for _, one := range []string{name, strings.TrimSuffix(name, "s"), strings.TrimSuffix(name, "es")} {
			if list := s.KindsBy(one, group, "", true); len(list) > 0 {
				return list
			}
		}
		for _, k := range s.Kinds.All() { // as people call it for short: isbsvc
			if i := k.Info(); i.Custom && slices.Contains(i.Short, strings.ToLower(name)) {
				return []resource.Kind{k}
			}
		}
	}
	return nil
}

// keyless says that a Secret or ConfigMap that a spec names has not the key that stands beside its name.
func keyless(l *converge.Look, f *converge.Finding, of []resource.Kind, v *value) bool {
	for _, k := range of {
		ns := cmp.Or(v.ns, l.Obj.GetNamespace())
		obj := l.Read.Lookup(k, ns, v.text)
		has := converge.DataKeys(obj)
		if obj == nil || len(has) == 0 || slices.Contains(has, v.key) {
			continue
		}
		r := converge.RefTo(k, obj)
		f.Waits, f.State = converge.On("Field", r, "data."+v.key), converge.Blocked
		f.Says += "; " + new(converge.ObjectOf(k, obj)).Short() + ", which it names in " + v.path + ", has no key " + v.key
		f.Next = converge.PersonDoes("adds that key, or names one that is there; %s goes on then", f.Owner)
		f.Advice = append([]string{"add the key " + v.key + ": kubectl edit " + k.Info().Singular + " " + v.text + " -n " + ns},
			f.Advice...)
		return true
	}
	return false
}

var (
	// scarce finds words by which a controller says that there is none left of something.
	scarce = pattern.New(`(?i)\bno (available|free|more|remaining|spare)\b|exhaust|\bfull\b|insufficient|not enough|out of|` +
		`exceed|\bno .* (left|available)|limit|capacity|quota|used up|depleted`)
	// usedOf and allOf are fields that count what is used, and what there is.
	usedOf = []string{"used", "allocated", "inUse", "assigned"}
	allOf  = []string{"total", "capacity", "limit", "max", "size", "hard"}
)

// usedUp tells of what the object names and of which, by its numbers, nothing is left, where its controller says that it lacks something.
func usedUp(l *converge.Look, f *converge.Finding, tree map[string]any, message string) {
	if len(f.Below) > 0 || f.State == converge.Blocked || !scarce.MatchString(message) {
		return
	}
	for _, m := range mentions.Of(l).Mentions(tree) {
		other, custom := words.Tree(m.Obj)
		if m.Obj == nil || !custom {
			continue
		}
		name := new(converge.ObjectOf(m.Kind, m.Obj)).Short()
		if path, used, all := fullPart("status", other["status"], 0); path != "" {
			f.Says += fmt.Sprintf("; %s, which it names, is used up: %d of %d (%s)", name, used, all, path)
			f.Waits = converge.On("Object", m.Ref, path)
			f.State, f.Next = converge.Blocked, converge.PersonDoes("makes room there; %s goes on then", f.Owner)
			f.Advice = append([]string{"give " + name + " more, or let something of it go: kubectl edit " + m.Called()}, f.Advice...)
			return
		}
	}
}

// fullPart finds a part of a status that counts as much used as there is.
func fullPart(path string, v any, depth int) (at string, used, all int64) {
	part, _ := v.(map[string]any)
	for _, u := range usedOf {
		for _, a := range allOf {
			used, is := part[u].(int64)
			all, has := part[a].(int64)
			if is && has && used > 0 && used >= all {
				return path, used, all
			}
		}
	}
	for _, field := range slices.Sorted(maps.Keys(part)) {
		if depth < 3 {
			if at, used, all = fullPart(path+"."+field, part[field], depth+1); at != "" {
				return at, used, all
			}
		}
	}
	return "", 0, 0
}

// camelKind finds words that can be the name of a kind.
var camelKind = pattern.New(`\b([A-Z][a-z]+(?:[A-Z][a-z]*)+)(?:\(?s\)?)?\b`)

// lookAt advises to look at what a controller speaks of, if that is there and nothing better is known: an object by kind and name, or the
// objects of a kind of another name.
func lookAt(l *converge.Look, f *converge.Finding, message string) {
	if len(f.Below) > 0 || f.State == converge.Blocked || len(f.Advice) != 1 || words.PassingWords.MatchString(message) &&
		!words.Faulty.MatchString(message) {
		return
	}
	s := mentions.Of(l)
	for _, m := range append(Spoken.FindAllStringSubmatch(message, converge.MaxLooks), anyLow.FindAllStringSubmatch(message,
		converge.MaxLooks)...) {
		for _, k := range kindsBefore(s, m[1]+" ") {
			ns := cmp.Or(m[2], l.Obj.GetNamespace())
			if !k.Info().Namespaced {
				ns = ""
			}
			obj := l.Read.Lookup(k, ns, m[3])
			if obj == nil || obj.GetUID() == l.Obj.GetUID() {
				continue
			}
			f.Advice = append([]string{words.LookAt + ": kubectl describe " + converge.RefTo(k, obj).Called()}, f.Advice...)
			return
		}
	}
	for _, m := range camelKind.FindAllStringSubmatch(message, converge.MaxBranches) {
		for _, k := range append(s.KindsBy(m[1], "", "", true), s.KindsBy(strings.TrimSuffix(m[1], "s"), "", "", true)...) {
			if k == l.Kind || !l.Sees(k, "") {
				continue
			}
			f.Advice = append([]string{words.LookAt + ": kubectl get " + k.Info().GR().String() + " -A"}, f.Advice...)
			return
		}
	}
}

// anyLow finds an object in words that have its kind in small letters: service a/web, node: node-1.
var anyLow = pattern.New(`\b([A-Za-z]{3,})s?[ :/]+['"]?(?:([a-z0-9-]+)/)?([a-z0-9][a-z0-9.-]*[a-z0-9])`)

// chosen tells of what the object selects, of a kind that its controller speaks of, that is not well.
func chosen(l *converge.Look, f *converge.Finding, tree map[string]any, message string) {
	spec, _ := tree["spec"].(map[string]any)
	sel, _ := spec["selector"].(map[string]any)
	want, _ := sel["matchLabels"].(map[string]any)
	if len(f.Below) > 0 || f.State == converge.Blocked || len(want) == 0 || f.Aside != "" {
		return
	}
	low := strings.ToLower(message)
	for _, k := range l.Kinds.All() {
		i := k.Info()
		if !i.Custom || k == l.Kind || words.Domain(i.GVK.Group) != words.Domain(l.Kind.Info().GVK.Group) ||
			!strings.Contains(low, i.Singular) || !l.Sees(k, l.Obj.GetNamespace()) {
			continue
		}
		var bad []converge.Ref
		for obj := range l.Read.Each(k, l.Obj.GetNamespace()) {
			fits := true
			for key := range want {
				fits = fits && obj.GetLabels()[key] == words.String(want, key)
			}
			if fits && !l.Health(k, obj).Converged() {
				bad = append(bad, converge.RefTo(k, obj))
			}
		}
		if len(bad) == 0 {
			continue
		}
		if part := l.Step(bad[0]); part != nil {
			f.Aside = "of what it selects, " + part.Gap().Verdict + AndMore(len(bad)-1)
		}
		return
	}
}

// bearers are the kinds of which operators list objects by their bare names in a status.
var bearers = []schema.GroupResource{{Resource: "pods"}, {Group: "apps", Resource: "statefulsets"},
	{Group: "apps", Resource: "deployments"}, {Group: "batch", Resource: "jobs"}}

// tallied are those that the status has by name and that are not well.
func tallied(l *converge.Look, tree map[string]any) (bad []converge.Ref) {
	seen := map[string]bool{}
	for _, v := range values("status", tree["status"], 0) {
		if seen[v.text] || len(v.text) < 5 || !strings.Contains(v.text, "-") || !label.MatchString(v.text) {
			continue
		}
		seen[v.text] = true
		for _, k := range l.Served(bearers...) {
			if obj := l.Read.Lookup(k, l.Obj.GetNamespace(), v.text); obj != nil && !l.Health(k, obj).Converged() {
				bad = append(bad, converge.RefTo(k, obj))
			}
		}
	}
	return bad
}

// listedIll has what the status names and is not well as the cause, if that is known no better.
func listedIll(l *converge.Look, f *converge.Finding, tree map[string]any, message string) {
	if len(f.Below) > 0 || f.State == converge.Blocked {
		return
	}
	if bad := tallied(l, tree); len(bad) > 0 {
		waitsFor(f, message, bad...)
	}
}
