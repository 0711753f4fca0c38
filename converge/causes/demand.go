package causes

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	kloop "github.com/kloop-dev/kloop/resource"
)

// What a pod requires by labels, of nodes or of pods beside it, and nothing has: it can ask for what there is, or what there is can be
// labelled so.

// A demand is a label of nodes that a pod requires with one of some values, and that none has so. It stands in an expression of a term of
// its affinity.
type demand struct {
	key      string
	wants    []string
	term, at int
}

// required are the terms by which the affinity of a pod requires nodes; nil: there are none.
func required(p *corev1.Pod) *corev1.NodeSelector {
	if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

// demands are those of a pod's affinity: one of each term that has any, for one term is enough.
func demands(w *converge.World, p *corev1.Pod) (list []demand) {
	sel := required(p)
	if sel == nil || !w.Sees(kinds.Nodes, "") {
		return nil
	}
	for i := range sel.NodeSelectorTerms {
		for j, want := range sel.NodeSelectorTerms[i].MatchExpressions {
			has := nodeLabels(w, want.Key)
			if want.Operator == corev1.NodeSelectorOpIn && len(want.Values) > 0 && !slices.ContainsFunc(has, func(v string) bool {
				return slices.Contains(want.Values, v)
			}) {
				list = append(list, demand{want.Key, want.Values, i, j})
				break
			}
		}
	}
	return list
}

// asking is advice, with the patch, to have the affinity of a pod ask for another value.
func (d *demand) asking(l *converge.Look, p *corev1.Pod, value string) string {
	sel := required(p).DeepCopy()
	sel.NodeSelectorTerms[d.term].MatchExpressions[d.at].Values = []string{value}
	return retemplate(l, "have it ask for "+d.key+"="+value+", if that is meant", converge.JSON(map[string]any{"affinity": map[string]any{
		"nodeAffinity": map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": sel}}}))
}

// otherValues advises to have the affinity of a pod ask for a value that nodes have of a label, where it asks for one that none has: for
// the one that is like it, else for one of a few.
func otherValues(l *converge.Look, p *corev1.Pod) (advice []string) {
	for _, d := range demands(l.World, p) {
		has := nodeLabels(l.World, d.key)
		if like := valueLike(l.World, d.key, d.wants[0], has); like != "" && !fixedLabel(d.key) { // zones are all alike
			has = []string{like}
		}
		for _, value := range has[:min(len(has), converge.MaxBranches)] {
			advice = append(advice, d.asking(l, p, value))
		}
		if len(advice) > 0 {
			return advice
		}
	}
	return nil
}

// fixedLabel says that a label tells what a node is, so that to give it to another one does not help.
func fixedLabel(key string) bool {
	domain, _, is := strings.Cut(key, "/")
	return is && (strings.HasSuffix(domain, "kubernetes.io") || strings.HasSuffix(domain, "k8s.io") ||
		strings.HasSuffix(domain, "karpenter.sh"))
}

// labelling advises to label the node that a pod could have, if one label that it requires, and that no node has so, were not lacking; "":
// that would not do, or it is a label that tells what a node is.
func labelling(w *converge.World, p *corev1.Pod) string {
	by := metav1.GetControllerOfNoCopy(p)
	if !w.Sees(kinds.Pods, "") || by != nil && by.Kind == "DaemonSet" {
		return ""
	}
	key, value, free := "", "", p.DeepCopy()
	if list := demands(w, p); len(list) == 1 && len(p.Spec.NodeSelector) == 0 {
		key, value = list[0].key, list[0].wants[0]
		e := &required(free).NodeSelectorTerms[list[0].term].MatchExpressions
		if *e = slices.Delete(*e, list[0].at, list[0].at+1); len(*e) == 0 && len(required(free).NodeSelectorTerms) == 1 {
			free.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = nil
		}
	} else if len(p.Spec.NodeSelector) == 1 && required(p) == nil {
		for key, value = range p.Spec.NodeSelector {
			free.Spec.NodeSelector = nil
		}
	}
	if key == "" || fixedLabel(key) {
		return ""
	}
	asks := nodeaffinity.GetRequiredNodeAffinity(free)
	for _, n := range kloop.List(w.Read, kinds.Nodes, "") {
		if barrier(free, asks, n) == "" && thereOn(w, n.Name).holds(p, n) {
			command := "kubectl label node " + n.Name + " " + key + "=" + value
			if _, has := n.Labels[key]; has {
				command += " --overwrite"
			}
			return "if a node is such as is meant, say so, as of " + n.Name + ": " + command
		}
	}
	return ""
}

// companions advises to have the affinity of a pod ask for a label that pods beside it have, where it asks for one that none has; nil: no
// such label is like it.
func companions(l *converge.Look, p *corev1.Pod) (advice []string) {
	terms := p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if len(terms) == 0 || terms[0].LabelSelector == nil || !l.Sees(kinds.Pods, p.Namespace) {
		return nil
	}
	for key, want := range terms[0].LabelSelector.MatchLabels {
		has := map[string]bool{}
		for o := range l.Read.Each(core.Pods, p.Namespace) {
			if value := o.GetLabels()[key]; value != "" && o.GetUID() != p.UID && value != p.Labels[key] {
				has[value] = true
			}
		}
		if has[want] || len(terms[0].LabelSelector.MatchLabels) != 1 {
			continue
		}
		meant := converge.Likest(want, slices.Sorted(maps.Keys(has)))
		if meant == "" {
			continue
		}
		to := slices.Clone(terms)
		to[0] = *to[0].DeepCopy()
		to[0].LabelSelector.MatchLabels[key] = meant
		advice = append(advice, retemplate(l, "have it ask for pods with "+key+"="+meant+", if that is meant", converge.JSON(map[string]any{
			"affinity": map[string]any{"podAffinity": map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": to}}})))
	}
	return advice
}
