package general

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

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
			advice := cmp.Or(otherPart(s, &m), m.Help, s.NearTo(m.Wait()), s.OnlyOne(m.Wait()))
			list = append(list, Remark{Says: says, Wait: m.Wait(), Advice: advice})
		} else if custom && m.Obj != nil && !m.Loose {
			list = append(list, lame(s, &m)...)
		}
	}
	if custom || s.Kind.Info().GR() == networkPolicies {
		list = append(list, selectors(s, []string{"spec"}, tree["spec"])...)
	}
	if !custom {
		return list
	}
	list = slices.Concat(list, unselected(s), portless(s, tree), Besides(s, tree))
	if bad := append(Applied(s, tree), PartsOf((&converge.Look{World: s.World, Kind: s.Kind, Obj: s.Obj}), s.Obj,
		0)...); len(bad) > 0 {
		if part := s.Step(bad[0]); part != nil {
			list = append(list, Remark{Says: "has a part that is not well: " + part.Gap().Verdict,
				Wait: converge.On("Object", bad[0], ""), Part: part})
		}
	}
	return list
}

// otherPart advises to name a part that an object has in place of one that it has not: a subset or a listener; "": it is none of those.
func otherPart(s *mentions.Search, m *mentions.Mention) string {
	part, has := m.Instead()
	if len(has) == 0 || m.Obj == nil || strings.HasPrefix(m.Part, "port ") {
		return ""
	}
	return strings.Join(converge.InPlaceOf(&converge.Look{World: s.World, Kind: s.Kind, Obj: s.Obj}, part, has), "\n")
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
