package general

import (
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/mentions"
	"github.com/kloop-dev/kloop/converge/words"
)

// unselected remarks on an object of a kind that others of its project select by labels, as a Prometheus does by its
// serviceMonitorSelector, if none of them selects it.
func unselected(s *mentions.Search) (list []Remark) {
	own := s.Kind.Info()
	field := strings.ToLower(own.GVK.Kind) + "selector"
	for _, k := range s.Kinds.All() {
		if i := k.Info(); !i.Custom || words.Domain(i.GVK.Group) != words.Domain(own.GVK.Group) || k == s.Kind || !s.Sees(k, "") {
			continue
		}
		for by := range s.Read.Each(k, "") {
			tree, _ := words.Tree(by)
			spec, _ := tree["spec"].(map[string]any)
			for name := range spec {
				sel, is := spec[name].(map[string]any)
				stem, _ := strings.CutSuffix(name, "Selector")
				if strings.ToLower(name) != field || !is || by.GetNamespace() != s.Obj.GetNamespace() && spec[stem+"NamespaceSelector"] == nil {
					continue
				}
				match, _ := sel["matchLabels"].(map[string]any)
				want := labels.Set{}
				for key := range match {
					want[key] = words.String(match, key)
				}
				if sel["matchExpressions"] != nil || want.AsSelector().Matches(labels.Set(s.Obj.GetLabels())) {
					return nil
				}
				o := converge.ObjectOf(k, by)
				list = []Remark{{Says: "is selected by no " + k.Info().Singular + ": " + o.Short() + " asks for " + want.String(),
					Wait: converge.On("Object", converge.RefTo(k, by), ""), Advice: "kubectl label " + own.GR().String() + " " +
						converge.Called(&converge.Look{Obj: s.Obj}) + " " + strings.ReplaceAll(want.String(), ",", " ")}}
			}
		}
	}
	return list
}
