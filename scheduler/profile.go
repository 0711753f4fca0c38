package scheduler

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A Profile holds the rules for the pods that name it as their scheduler. The zero value, with a name, is upstream's
// default.
type Profile struct {
	Name string // the schedulerName

	Off     []string         // plugins that have no say, by upstream's names; VolumeBinding stands for all about volumes
	Weights map[string]int64 // of plugins that rank nodes, where they differ from the default; 0: does not rank

	Affinity *corev1.NodeAffinity // further demands on nodes, beside those of the pods
	// Spread holds for pods that have no constraints of their own; nil: upstream's, over hosts and zones; empty: none.
	Spread []corev1.TopologySpreadConstraint
	Fit    Strategy // of NodeResourcesFit, when it ranks
	Space  []Point  // of VolumeBinding, when it ranks by how full storage is; nil: upstream's, the emptiest first
	Even   []Weight // resources that NodeResourcesBalancedAllocation looks at, their weights aside; nil: cpu and memory
	// Ignored are resources that NodeResourcesFit leaves to somebody else, by name or, with / at the end, by group.
	Ignored []string
	// HardAffinity is the weight of a required affinity of pods that are there for those that come; nil: 1.
	HardAffinity *int64
	// OwnPreferences leaves out what pods that are there would prefer of those that come.
	OwnPreferences bool
	// Victims are the nodes on which preemption looks for victims: so many percent, at least so many. 0: 10 and 100.
	VictimsPercent, VictimsLeast int
	BindTime                     time.Duration // how long a decided pod waits for its volumes; 0: 10 minutes
	// DeviceTime bounds the search for a pod's devices on one node, DeviceBindTime a decided pod's wait until
	// they can be used. 0: 10 seconds and 10 minutes; DeviceTime below 0: no limit.
	DeviceTime, DeviceBindTime time.Duration
	Extenders                  []*Extender
}

// names are the plugins that a profile may name.
func names() map[string]bool {
	all := map[string]bool{}
	for _, p := range plugins() {
		if !p.unnamed {
			all[p.name] = true
		}
	}
	return all
}

// Check says what is wrong with the profile.
func (p *Profile) Check() error {
	known := names()
	for _, name := range append(slices.Clone(p.Off), slices.Collect(maps.Keys(p.Weights))...) {
		if !known[name] {
			return fmt.Errorf("scheduler profile %s: there is no plugin %q that can be chosen: use %v", p.Name, name,
				slices.Sorted(maps.Keys(known)))
		}
	}
	if err := errors.Join(p.Fit.check(), checkShape(p.Space), checkWeights(p.Even)); err != nil {
		return fmt.Errorf("scheduler profile %s: %w", p.Name, err)
	}
	for name, w := range p.Weights {
		if w < 0 || w > maxScore {
			return fmt.Errorf("scheduler profile %s: weight %d of %s: use 0 to %d", p.Name, w, name, maxScore)
		}
	}
	return nil
}

func (p *Profile) on(plugin string) bool { return p == nil || !slices.Contains(p.Off, plugin) }

// weight is the plugin's when nodes are scored.
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

// plugins are those that the profile leaves on, with its weights.
func (p *Profile) plugins() []plugin {
	all := plugins()
	list := all[:0]
	for _, x := range all {
		if p.on(x.name) {
			x.weight = p.weight(x.name, x.weight)
			list = append(list, x)
		}
	}
	return list
}

// tuneScores says what counts when nodes are ranked by their resources, and which resources are left to others.
func (p *Profile) tuneScores(o *nodeVerdicts) {
	if p == nil {
		p = &Profile{}
	}
	o.strategy = &p.Fit
	o.fitBy, o.evenBy = o.rank(p.Fit.Of, true), o.rank(p.Even, false)
	for _, a := range o.need.asks {
		if name := string(o.st.resources.list[a.res]); a.res > resPods && p.leaves(name) {
			o.ignored = append(o.ignored, a.res)
		}
	}
}

func (p *Profile) leaves(resource string) bool {
	return slices.ContainsFunc(p.Ignored, func(x string) bool {
		return x == resource || strings.HasSuffix(x, "/") && strings.HasPrefix(resource, x)
	}) || slices.ContainsFunc(p.Extenders, func(e *Extender) bool { return e.hides(resource) })
}

// enough is the number of candidates for preemption that are compared on so many nodes.
func (p *Profile) enough(nodes int) int {
	percent, least := 10, 100
	if p != nil && p.VictimsPercent+p.VictimsLeast > 0 {
		percent, least = p.VictimsPercent, p.VictimsLeast
	}
	return max(least, nodes*percent/100)
}

// bindTime bounds a decided pod's wait for its volumes before it is decided anew.
func (p *Profile) bindTime() time.Duration {
	if p == nil || p.BindTime == 0 {
		return 10 * time.Minute
	}
	return p.BindTime
}

// deviceTime bounds the search for a pod's devices on one node; 0: no limit.
func (p *Profile) deviceTime() time.Duration {
	if p == nil || p.DeviceTime == 0 {
		return 10 * time.Second
	}
	return max(p.DeviceTime, 0)
}

// deviceBindTime bounds a decided pod's wait until its devices can be used.
func (p *Profile) deviceBindTime() time.Duration {
	if p == nil || p.DeviceBindTime == 0 {
		return 10 * time.Minute
	}
	return p.DeviceBindTime
}

// hardAffinity is the weight of a required affinity of pods that are there for those that come.
func (p *Profile) hardAffinity() int64 {
	if p == nil || p.HardAffinity == nil {
		return 1
	}
	return *p.HardAffinity
}

// space is the shape by which nodes are scored for the fullness of their storage.
func (p *Profile) space() []Point {
	if p == nil || len(p.Space) == 0 {
		return usual
	}
	return p.Space
}

// spread are the constraints of pods that have none.
func (p *Profile) spread() []corev1.TopologySpreadConstraint {
	if p != nil && p.Spread != nil {
		return p.Spread
	}
	return []corev1.TopologySpreadConstraint{{MaxSkew: 3, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway},
		{MaxSkew: 5, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway}}
}

// affinity adds the profile's affinity to a pod; without any it is the pod itself.
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
