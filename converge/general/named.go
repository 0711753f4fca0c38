package general

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/mentions"
	"github.com/kloop-dev/kloop/converge/words"
)

// remarked has all remarks about an object in one. It waits for what the first waits for: whether the reader may see into another
// namespace is asked of that alone.
func remarked(s *mentions.Search) (all Remark) {
	if s.Obj.GetDeletionTimestamp() != nil {
		return all
	}
	for _, r := range remarks(s) {
		if all.Wait != nil && r.Wait != nil && r.Wait.On.Namespace != "" && r.Wait.On.Namespace != s.Obj.GetNamespace() {
			continue
		}
		if all.Wait == nil {
			all.Wait, all.Advice = r.Wait, cmp.Or(r.Advice, all.Advice)
		}
		all.Says, all.Part = strings.TrimPrefix(all.Says+"; "+r.Says, "; "), cmp.Or(all.Part, r.Part)
	}
	return all
}

// remarks say what is not quite right with an object that has no gap.
func remarks(s *mentions.Search) (list []Remark) {
	for _, m := range s.Noted() {
		list = append(list, Remark{Says: m.Says(s.Obj.GetNamespace()), Wait: m.Wait(), Advice: cmp.Or(s.NearTo(m.Wait()), s.OnlyOne(m.Wait()))})
	}
	tree, custom := words.Tree(s.Obj)
	if !custom {
		if !slices.Contains(Templated, s.Kind.Info().GR()) {
			return list
		}
		data, err := json.Marshal(s.Obj)
		if err != nil || json.Unmarshal(data, &tree) != nil {
			return list
		}
	}
	for _, m := range s.Mentions(tree) {
		if says := m.Says(s.Obj.GetNamespace()); says != "" && !m.Loose {
			list = append(list, Remark{Says: says, Wait: m.Wait(), Advice: cmp.Or(m.Help, s.NearTo(m.Wait()), s.OnlyOne(m.Wait()))})
		} else if custom && m.Obj != nil && !m.Loose {
			list = append(list, lame(s, &m)...)
		}
	}
	if custom || s.Kind.Info().GR() == networkPolicies {
		list = append(list, selectors(s, "spec", tree["spec"], 0)...)
	}
	if !custom {
		return list
	}
	list = append(append(list, unselected(s)...), Besides(s, tree)...)
	if bad := append(Applied(s, tree), PartsOf((&converge.Look{World: s.World, Kind: s.Kind, Obj: s.Obj}), s.Obj,
		0)...); len(bad) > 0 {
		if part := s.Step(bad[0]); part != nil {
			list = append(list, Remark{Says: "has a part that is not well: " + part.Gap().Verdict,
				Wait: converge.On("Object", bad[0], ""), Part: part})
		}
	}
	return list
}

// lame remarks on what an object names that is not well, or a service that leads nowhere, on purpose.
func lame(s *mentions.Search, m *mentions.Mention) []Remark {
	if svc, is := m.Obj.(*corev1.Service); is {
		if says, advice := Asleep(s.World, svc); says != "" {
			return []Remark{{Says: says, Wait: m.Wait(), Advice: advice}}
		}
	}
	if s.Health(m.Kind, m.Obj).Converged() {
		return nil
	}
	part := s.Step(m.Ref)
	if part == nil {
		return nil
	}
	return []Remark{{Says: "names in " + m.Field + " what is not well: " + part.Gap().Verdict, Wait: m.Wait(), Part: part}}
}

// selectors finds those of a spec that select nothing. The field says of which kind, as serviceMonitorSelector does; one that is only
// called selector may select anything.
func selectors(s *mentions.Search, path string, v any, depth int) (list []Remark) {
	if several, is := v.([]any); is && depth < 6 {
		for _, item := range several {
			list = append(list, selectors(s, path, item, depth+1)...)
		}
	}
	at, _ := v.(map[string]any)
	for _, field := range slices.Sorted(maps.Keys(at)) {
		sel, _ := at[field].(map[string]any)
		match, _ := sel["matchLabels"].(map[string]any)
		stem, is := strings.CutSuffix(field, "elector")
		if field == "template" || field == "podTemplate" || depth > 6 {
			continue
		}
		if !is || len(match) == 0 || sel["matchExpressions"] != nil {
			list = append(list, selectors(s, path+"."+field, at[field], depth+1)...)
			continue
		}
		want := labels.Set{}
		for key := range match {
			want[key] = words.String(match, key)
		}
		ns := s.Obj.GetNamespace()
		if at["namespaceSelector"] != nil && field != "namespaceSelector" {
			ns = ""
		}
		if r := selectsNone(s, path+"."+field, strings.TrimSuffix(strings.TrimSuffix(stem, "S"), "s"), ns, want); r.Says != "" {
			list = append(list, r)
		}
	}
	return list
}

// selectable are the kinds that a selector of no other name may select.
var selectable = []schema.GroupResource{{Resource: "pods"}, {Resource: "services"}, {Group: "apps", Resource: "deployments"},
	{Group: "apps", Resource: "statefulsets"}, {Group: "apps", Resource: "daemonsets"}}

var networkPolicies = schema.GroupResource{Group: "networking.k8s.io", Resource: "networkpolicies"}

func selectsNone(s *mentions.Search, path, word, ns string, want labels.Set) Remark {
	of := s.Served(selectable...)
	if word != "" {
		of = s.KindsBy(word, "", "", true)
	}
	sel, near := want.AsSelector(), Remark{}
	if len(of) == 0 {
		return near
	}
	for _, one := range of {
		in := ns
		if !one.Info().Namespaced {
			in = ""
		}
		if !s.Sees(one, in) {
			return Remark{}
		}
		for other := range s.Read.Each(one, in) {
			has := labels.Set(other.GetLabels())
			if sel.Matches(has) {
				return Remark{}
			}
			for key, value := range want {
				if near.Advice == "" && has[key] != "" && converge.Likest(value, []string{has[key]}) != "" {
					near.Advice = "there is " + key + "=" + has[key] + " at " +
						new(converge.ObjectOf(one, other)).Short() + ": correct " + path + ", if that is meant"
					near.Wait = converge.On("Object", converge.RefTo(one, other), "")
				}
			}
		}
	}
	what := "nothing (no pod, service or workload there has these labels)"
	if word != "" {
		what = "no " + of[0].Info().Singular
	}
	near.Says = "selects " + what + " by " + path + " " + want.String()
	if ns == "" && of[0].Info().Namespaced {
		near.Says += ", in any namespace"
	}
	return near
}
