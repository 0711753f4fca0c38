package general

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/resource"
)

// Operators mark by labels what they make where they can't own it, or don't: the Gateway API by gateway.networking.k8s.io/gateway-name
// (GEP-1762), others by the group, or its end, and the kind, or its end: cnpg.io/cluster, opster.io/opensearch-cluster.

// labelledKinds are those that operators mark so.
var labelledKinds = []schema.GroupResource{{Group: "apps", Resource: "deployments"}, {Group: "apps", Resource: "statefulsets"},
	{Group: "apps", Resource: "daemonsets"}, {Group: "batch", Resource: "jobs"}, {Resource: "services"}}

// A mark is a label that has the name of the object for which something was made, and the one that has its namespace; "" where it lies
// beside that.
type mark struct{ name, space string }

// marksOf are the labels that the makers of a kind's parts use.
func marksOf(i *resource.Info) (list []mark) {
	parts := strings.Split(strings.ToLower(camel.ReplaceAllString(i.GVK.Kind, "$1-$2")), "-")
	names := []string{"name", strings.Join(parts, ""), strings.Join(parts, "-"), parts[len(parts)-1]}
	for _, n := range names[1:] {
		names = append(names, n+"-name")
	}
	for _, group := range []string{i.GVK.Group, words.Domain(i.GVK.Group)} {
		for _, n := range names {
			m := mark{group + "/" + n, ""}
			if n == "name" { // as Flux has both
				m.space = group + "/namespace"
			}
			if !slices.Contains(list, m) {
				list = append(list, m)
			}
		}
	}
	if i.GVK.Kind == "Gateway" {
		list = append(list, mark{"gateway.envoyproxy.io/owning-gateway-name", "gateway.envoyproxy.io/owning-gateway-namespace"})
	}
	return list
}

// camel finds where words of a kind meet.
var camel = pattern.New(`([a-z0-9])([A-Z])`)

// marksSeen are the labels that anything of the labelled kinds has. They are gathered once many objects ask: one looks faster.
type marksSeen struct {
	kinds []resource.Kind
	asked int
	keys  map[string]bool
}

// fewAsk objects ask before the labels are gathered.
const fewAsk = 16

func (s *marksSeen) has(w *converge.World, key string) bool {
	if s.keys == nil && s.asked > fewAsk {
		s.keys = map[string]bool{}
		for _, k := range s.kinds {
			for obj := range w.Read.Each(k, "") {
				for key := range obj.GetLabels() {
					s.keys[key] = true
				}
			}
		}
	}
	return s.keys == nil || s.keys[key]
}

// labelled are the objects that carry a mark of the object, and are not well.
func labelled(l *converge.Look) (bad []converge.Ref) {
	seen := converge.Kept[marksSeen](l.World)
	if seen.asked++; seen.kinds == nil {
		seen.kinds = l.Served(labelledKinds...)
	}
	for _, k := range seen.kinds { // what has its very name, and no other owner
		if k.Info().GVK.Group != "apps" {
			continue
		}
		if obj := l.Read.Lookup(k, l.Obj.GetNamespace(), l.Obj.GetName()); obj != nil && len(obj.GetOwnerReferences()) == 0 &&
			!l.Health(k, obj).Converged() {
			bad = append(bad, converge.RefTo(k, obj))
		}
	}
	for _, m := range marksOf(l.Kind.Info()) {
		ns := l.Obj.GetNamespace()
		if !seen.has(l.World, m.name) {
			continue
		}
		if m.space != "" && seen.has(l.World, m.space) {
			ns = ""
		}
		for _, k := range seen.kinds {
			for obj := range l.Read.ByLabel(k, ns, m.name, l.Obj.GetName()) {
				there := cmp.Or(obj.GetLabels()[m.space], obj.GetNamespace()) == l.Obj.GetNamespace()
				if r := converge.RefTo(k, obj); there && !slices.Contains(bad, r) && !l.Health(k, obj).Converged() {
					bad = append(bad, r)
				}
			}
		}
	}
	return bad
}

// counted finds messages that but count parts: 1/3 nodes failed to configure.
var counted = pattern.New(`^\d+ ?(?:/|of) ?\d+ [\w ]+$`)

// markedPart finds what of the same project carries a mark of the object and is not well, where its controller only counts such.
func markedPart(l *converge.Look, f *converge.Finding, message string) {
	if len(f.Below) > 0 || !counted.MatchString(message) {
		return
	}
	for _, k := range l.Kinds.All() {
		if k == l.Kind || k.Info().GVK.Group != l.Kind.Info().GVK.Group || !l.Sees(k, l.Obj.GetNamespace()) {
			continue
		}
		for _, m := range marksOf(l.Kind.Info()) {
			for obj := range l.Read.ByLabel(k, l.Obj.GetNamespace(), m.name, l.Obj.GetName()) {
				if r := converge.RefTo(k, obj); m.space == "" && !l.Health(k, obj).Converged() && !slices.Contains(f.Below, r) {
					f.Below = append(f.Below, r)
				}
			}
		}
	}
	if len(f.Below) > 0 {
		waitsFor(f, message, f.Below...)
	}
}

// unmatched finds words by which a controller says that a selector of the spec selects nothing.
var unmatched = pattern.New(`(?i)match(ed|es|ing)?\b.*selector|selector.*match|no matching|nothing match|none .*match|no compatible`)

// selecting advises to compare a selector of the spec that selects nothing, as the controller says, with the labels of what it is for.
func selecting(l *converge.Look, f *converge.Finding, tree map[string]any, message string) {
	if len(f.Below) > 0 || !unmatched.MatchString(message) {
		return
	}
	spec, _ := tree["spec"].(map[string]any)
	for _, field := range slices.Sorted(maps.Keys(spec)) {
		stem, is := strings.CutSuffix(field, "Selector")
		want, _, _ := unstructured.NestedStringMap(spec, field, "matchLabels") // none where they are of another form
		if !is || len(want) == 0 {
			continue
		}
		for _, k := range selectedBy(l, stem, message) {
			if other := elsewhere(l, k, want); other != "" {
				f.Says += "; " + other
			}
			f.Advice = append([]string{fmt.Sprintf("compare spec.%s (%s) with the labels of what it is to select: "+
				"kubectl get %s -A --show-labels", field, labels.Set(want), k.Info().GR())}, f.Advice...)
			return
		}
	}
}

// elsewhere names an object that a selector fits, in another namespace than the one that selects.
func elsewhere(l *converge.Look, k resource.Kind, want map[string]string) string {
	ns, in := l.Obj.GetNamespace(), ""
	if ns == "" || !k.Info().Namespaced {
		return ""
	}
	for obj := range l.Read.Each(k, "") {
		if labels.SelectorFromSet(want).Matches(labels.Set(obj.GetLabels())) && l.Sees(k, obj.GetNamespace()) {
			if obj.GetNamespace() == ns {
				return ""
			}
			in = new(converge.ObjectOf(k, obj)).Short() + " has those labels, in namespace " + obj.GetNamespace() + " and not in " + ns
		}
	}
	return in
}

// selectedBy are the kinds that a selector may be for: of the object's own project by the words or the field's name, of others by both.
func selectedBy(l *converge.Look, stem, message string) (list []resource.Kind) {
	for _, k := range l.Kinds.All() {
		i := k.Info()
		spoken, meant := strings.Contains(message, i.GVK.Kind), strings.EqualFold(i.GVK.Kind, stem)
		if near := words.Domain(i.GVK.Group) == words.Domain(l.Kind.Info().GVK.Group); i.Custom && k != l.Kind &&
			(near && (words.StandsIn(message, i.GVK.Kind) || meant) || spoken && meant) {
			list = append(list, k)
		}
	}
	return list
}
