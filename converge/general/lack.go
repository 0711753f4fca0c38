package general

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/mentions"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/resource"
)

// saidGone finds what a controller says is not there, by kind and name: secret "db" not found, LocalQueue q doesn't exist.
var saidGone = pattern.New(`\b([A-Za-z]+)(?: resource)? [\\"'\x60]*(?:([a-z0-9-]+)/)?([a-z0-9][a-z0-9.-]*[a-z0-9])[\\"'\x60]* ` +
	`(?:could |is |was |which )?(?:not (?:be )?found|does(?: not|n't) exist)`)

// lackOf has a person make what the spec names and the controller says is not there, if that is so.
func lackOf(l *converge.Look, f *converge.Finding, message string) {
	m, tree := saidGone.FindStringSubmatch(message), map[string]any(nil)
	if tree, _ = words.Tree(l.Obj); m == nil || len(f.Below) > 0 || f.State == converge.Blocked {
		return
	}
	ns := cmp.Or(m[2], l.Obj.GetNamespace())
	if !holds(tree["spec"], m[3]) {
		by := namedBy(l, tree, m[3])
		if by == nil {
			return
		}
		f.Says += "; " + new(converge.ObjectOf(by.Kind, by.Obj)).Short() + ", which it names, asks for that"
		ns = cmp.Or(m[2], cmp.Or(by.NS, l.Obj.GetNamespace())) // that is looked for beside it, unless it is of the whole cluster
	}
	list := append(mentions.Of(l).KindsBy(m[1], "", "", true), mentions.Of(l).KindsBy(strings.TrimSuffix(m[1], "s"), "", "", true)...)
	if len(list) == 0 { // project qa, of an AppProject
		list = OwnEnding(l, m[1])
	}
	list = slices.DeleteFunc(list, func(k resource.Kind) bool { // a role is more often one of a database
		return k.Info().GVK.Group == rbacv1.GroupName && k.Info().GVK.Kind != m[1]
	})
	if len(list) == 0 {
		return
	}
	k := list[0]
	if k.Info().GR() == l.Kind.Info().GR() && converge.OfOwn(tree, m[3]) { // it means a part of the spec itself
		return
	}
	if ns == "" && k.Info().Namespaced || !l.Sees(k, ns) || l.Read.Lookup(k, ns, m[3]) != nil {
		return
	}
	f.Waits, f.State = converge.On("Object", converge.Ref{Kind: k, NS: ns, Name: m[3]}, ""), converge.Blocked
	f.Next = converge.PersonDoes("makes %s, or names another one; %s goes on then", f.Waits.On.Short(), f.Owner)
}

// namedBy is the object that this one names, and in whose spec a name stands, as a store of external secrets has that of its credentials.
func namedBy(l *converge.Look, tree map[string]any, name string) *mentions.Mention {
	for _, m := range mentions.Of(l).Mentions(tree) {
		if other, custom := words.Tree(m.Obj); m.Obj != nil && custom && holds(other["spec"], name) {
			return &m
		}
	}
	return nil
}

// OwnEnding are the kinds of the object's own project whose names end with a word.
func OwnEnding(l *converge.Look, word string) (list []resource.Kind) {
	for _, k := range l.Kinds.All() {
		i := k.Info()
		if i.Custom && len(word) > 3 && words.Domain(i.GVK.Group) == words.Domain(l.Kind.Info().GVK.Group) &&
			strings.HasSuffix(i.GVK.Kind, strings.ToUpper(word[:1])+word[1:]) {
			list = append(list, k)
		}
	}
	return list
}

// holds says that a value in a tree has the text; the names of fields do not count.
func holds(v any, part string) bool {
	switch v := v.(type) {
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), func(v any) bool { return holds(v, part) })
	case []any:
		return slices.ContainsFunc(v, func(v any) bool { return holds(v, part) })
	case string:
		return strings.Contains(v, part)
	}
	return false
}

// lackBeyond looks one step further, where nobody judges what the object names: into a TriggerAuthentication, for the key of its Secret.
func lackBeyond(l *converge.Look, f *converge.Finding, tree map[string]any, message string) {
	if !words.Faulty.MatchString(message) || f.State == converge.Blocked || len(f.Below) > 0 {
		return
	}
	for _, m := range mentions.Of(l).Mentions(tree) {
		named, custom := words.Tree(m.Obj)
		if status, _ := named["status"].(map[string]any); m.Obj == nil || !custom || words.SaysWell(status) {
			continue
		}
		for _, lack := range (&mentions.Search{World: l.World, Kind: m.Kind, Obj: m.Obj}).Mentions(named) {
			if says := lack.Says(m.NS); says != "" && !lack.Loose {
				by := "; " + m.Kind.Info().Singular + "/" + m.Name + ", which it names, "
				f.Says = strings.TrimSuffix(f.Says, by+"asks for that") + by + says
				f.State, f.Waits = converge.Blocked, lack.Wait()
				f.Next = converge.PersonDoes("makes it, or names another one; %s goes on then", f.Owner)
				f.Advice = append([]string{"correct it: kubectl edit " + m.Called()}, f.Advice...)
				if command := converge.MakeSecret(named["spec"], lack.Kind.Info().GVK.Kind, lack.NS, lack.Name); command != "" && lack.Obj == nil {
					f.Advice = append([]string{"make it: " + command}, f.Advice...)
				}
				return
			}
		}
	}
}
