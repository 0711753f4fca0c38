package scheduler

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// A Profile is how the pods that name it as their scheduler are treated. The zero value, with a name, is upstream's
// default.
type Profile struct {
	Name string // the schedulerName

	Off     []string         // plugins that have no say, by upstream's names; VolumeBinding stands for all about volumes
	Weights map[string]int64 // of plugins that rank nodes, where they differ from the default; 0: does not rank

	Affinity *corev1.NodeAffinity // further demands on nodes, beside those of the pods
	// Spread holds for pods that have no constraints of their own; nil: upstream's, over hosts and zones; empty: none.
	Spread []corev1.TopologySpreadConstraint
	// Packed has pods go where most is used already (MostAllocated) instead of where least is.
	Packed bool
}

// The plugins that are no entry of filters or scores.
const (
	volumePlugin  = "VolumeBinding"
	devicePlugin  = "DynamicResources"
	spreadPlugin  = "PodTopologySpread"
	bondPlugin    = "InterPodAffinity"
	preemptPlugin = "DefaultPreemption"
	fitPlugin     = "NodeResourcesFit"
)

// topologyWeight is upstream's of the two plugins that rank by other pods.
const topologyWeight = 2

// plugins are the names that a profile may use.
func plugins() map[string]bool {
	all := map[string]bool{volumePlugin: true, devicePlugin: true, spreadPlugin: true, bondPlugin: true, preemptPlugin: true}
	for _, f := range filters() {
		all[f.name] = true
	}
	for _, s := range scores() {
		all[s.name] = true
	}
	return all
}

// Check says what is wrong with the profile.
func (p *Profile) Check() error {
	known := plugins()
	for _, name := range append(slices.Clone(p.Off), slices.Collect(maps.Keys(p.Weights))...) {
		if !known[name] {
			return fmt.Errorf("scheduler profile %s: there is no plugin %q that can be chosen: use %v", p.Name, name, slices.Sorted(maps.Keys(known)))
		}
	}
	for name, w := range p.Weights {
		if w < 0 || w > maxScore {
			return fmt.Errorf("scheduler profile %s: weight %d of %s: use 0 to %d", p.Name, w, name, maxScore)
		}
	}
	return nil
}

func (p *Profile) on(plugin string) bool { return p == nil || !slices.Contains(p.Off, plugin) }

// weight is what a ranking counts for.
func (p *Profile) weight(plugin string, def int64) int64 {
	if p == nil {
		return def
	}
	if !p.on(plugin) {
		return 0
	}
	if w, ok := p.Weights[plugin]; ok {
		return w
	}
	return def
}

// filters are those that the profile leaves on.
func (p *Profile) filters() (list []filter) {
	for _, f := range filters() {
		if p.on(f.name) {
			list = append(list, f)
		}
	}
	return list
}

// scores are those that count, with their weights.
func (p *Profile) scores() (list []score) {
	for _, s := range scores() {
		if s.weight = p.weight(s.name, s.weight); s.weight == 0 {
			continue
		}
		if s.name == fitPlugin && p != nil && p.Packed {
			s.of = scorePacked
		}
		list = append(list, s)
	}
	return list
}

// spread are the constraints of pods that have none.
func (p *Profile) spread() []corev1.TopologySpreadConstraint {
	if p != nil && p.Spread != nil {
		return p.Spread
	}
	return []corev1.TopologySpreadConstraint{{MaxSkew: 3, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway},
		{MaxSkew: 5, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway}}
}

// affinity is what the profile adds to a pod: the pod itself when that is nothing.
func (p *Profile) affinity(pod *corev1.Pod) *corev1.Pod {
	if p == nil || p.Affinity == nil {
		return pod
	}
	out := pod.DeepCopy()
	if out.Spec.Affinity == nil {
		out.Spec.Affinity = &corev1.Affinity{}
	}
	if out.Spec.Affinity.NodeAffinity == nil {
		out.Spec.Affinity.NodeAffinity = p.Affinity.DeepCopy()
		return out
	}
	na := out.Spec.Affinity.NodeAffinity
	na.PreferredDuringSchedulingIgnoredDuringExecution = append(na.PreferredDuringSchedulingIgnoredDuringExecution,
		p.Affinity.PreferredDuringSchedulingIgnoredDuringExecution...)
	na.RequiredDuringSchedulingIgnoredDuringExecution = both(na.RequiredDuringSchedulingIgnoredDuringExecution,
		p.Affinity.RequiredDuringSchedulingIgnoredDuringExecution)
	return out
}

// both is the selector of nodes that both take: every term of the one with every term of the other.
func both(a, b *corev1.NodeSelector) *corev1.NodeSelector {
	if a == nil || b == nil {
		if a == nil {
			return b
		}
		return a
	}
	out := &corev1.NodeSelector{}
	for _, x := range a.NodeSelectorTerms {
		for _, y := range b.NodeSelectorTerms {
			out.NodeSelectorTerms = append(out.NodeSelectorTerms, corev1.NodeSelectorTerm{
				MatchExpressions: slices.Concat(x.MatchExpressions, y.MatchExpressions), MatchFields: slices.Concat(x.MatchFields, y.MatchFields)})
		}
	}
	return out
}
