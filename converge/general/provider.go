package general

import (
	"maps"
	"slices"
	"strings"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/mentions"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
)

// providing finds kinds whose objects others need to be well, where they refer to them.
var providing = pattern.New(`(?:Issuer|Store|Source|Repository|ProviderConfig|Connection|Auth|StorageLocation|SnapshotLocation)$`)

// provider is the object without which an object of a spec can't be made, and that is not well; none: all are, or it names none.
func provider(l *converge.Look, tree map[string]any) (by converge.Ref) {
	for _, m := range mentions.Of(l).Mentions(tree) {
		if m.Obj != nil && m.Kind.Info().Custom && providing.MatchString(m.Kind.Info().GVK.Kind) && !l.Health(m.Kind, m.Obj).Converged() {
			return m.Ref
		}
	}
	return by
}

// provided has that object as the cause, where the words of the one that needs it name nothing else.
func provided(l *converge.Look, f *converge.Finding, tree map[string]any) bool {
	said := words.ErrorText(f.Error)
	if f.State != converge.Waiting || strings.ContainsAny(strings.ReplaceAll(said, "n't", ""), `:"'/`) {
		return false
	}
	by := provider(l, tree)
	if by.Kind == nil {
		return false
	}
	f.Below, f.Told, f.Aside = []converge.Ref{by}, said, ""
	return true
}

// fullThere tells which object of the same project, as a node or a disk of Longhorn's, says of itself that it is full.
func fullThere(l *converge.Look, f *converge.Finding) {
	group := l.Kind.Info().GVK.Group
	for _, k := range l.Kinds.All() {
		i := k.Info()
		if !i.Custom || i.GVK.Group != group || k == l.Kind || !l.Sees(k, l.Obj.GetNamespace()) {
			continue
		}
		for obj := range l.Read.Each(k, l.Obj.GetNamespace()) {
			tree, _ := words.Tree(obj)
			if said := lowOn(tree["status"], 0); said != "" {
				r := converge.RefTo(k, obj)
				f.Says += "; " + new(converge.ObjectOf(k, obj)).Short() + " says: " + words.OneLine(said)
				f.Advice = append([]string{"make room there, or give it more: kubectl describe " + r.Called()}, f.Advice...)
				return
			}
		}
	}
}

// short finds what a disk or a pool is low on.
var short = pattern.New(`(?i)disk|storage|space|capacity`)

// lowOn is the message of a condition, anywhere in a status, by which something has no room left; "": there is none.
func lowOn(v any, depth int) (message string) {
	switch v := v.(type) {
	case map[string]any:
		if said := words.String(v, "message"); words.String(v, "status") == "False" && short.MatchString(said) {
			return said
		}
		for _, field := range slices.Sorted(maps.Keys(v)) {
			if message == "" && depth < converge.MaxDepth {
				message = lowOn(v[field], depth+1)
			}
		}
	case []any:
		for _, item := range v {
			if message == "" && depth < converge.MaxDepth {
				message = lowOn(item, depth+1)
			}
		}
	}
	return message
}
