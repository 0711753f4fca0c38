package scheduler

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/resource"
)

// The types below are upstream's KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1) as far as it has a meaning
// here.

type configFile struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Profiles   []profileFile  `json:"profiles"`
	Extenders  []extenderFile `json:"extenders"`

	// What tunes upstream's process and has no meaning in kloop's; it may be there.
	Parallelism              any `json:"parallelism"`
	LeaderElection           any `json:"leaderElection"`
	ClientConnection         any `json:"clientConnection"`
	EnableProfiling          any `json:"enableProfiling"`
	EnableContentionProfile  any `json:"enableContentionProfiling"`
	PercentageOfNodesToScore any `json:"percentageOfNodesToScore"`
	PodInitialBackoffSeconds any `json:"podInitialBackoffSeconds"`
	PodMaxBackoffSeconds     any `json:"podMaxBackoffSeconds"`
}

type profileFile struct {
	SchedulerName            string               `json:"schedulerName"`
	PercentageOfNodesToScore any                  `json:"percentageOfNodesToScore"`
	Plugins                  map[string]pluginSet `json:"plugins"` // by extension point
	PluginConfig             []struct {
		Name string     `json:"name"`
		Args pluginArgs `json:"args"`
	} `json:"pluginConfig"`
}

type pluginSet struct {
	Enabled  []pluginChoice `json:"enabled"`
	Disabled []pluginChoice `json:"disabled"`
}

type pluginChoice struct {
	Name   string `json:"name"`
	Weight *int64 `json:"weight"`
}

// pluginArgs are those of all plugins together: their names do not meet.
type pluginArgs struct {
	APIVersion         string                            `json:"apiVersion"`
	Kind               string                            `json:"kind"`
	AddedAffinity      *corev1.NodeAffinity              `json:"addedAffinity"`
	DefaultConstraints []corev1.TopologySpreadConstraint `json:"defaultConstraints"`
	DefaultingType     string                            `json:"defaultingType"`
	ScoringStrategy    *struct {
		Type      string   `json:"type"`
		Resources []Weight `json:"resources"`
		Ratio     *struct {
			Shape []Point `json:"shape"`
		} `json:"requestedToCapacityRatio"`
	} `json:"scoringStrategy"`
	IgnoredResources      []string `json:"ignoredResources"`
	IgnoredResourceGroups []string `json:"ignoredResourceGroups"`
	Resources             []Weight `json:"resources"` // of NodeResourcesBalancedAllocation
	HardPodAffinityWeight *int64   `json:"hardPodAffinityWeight"`
	IgnorePreferredTerms  bool     `json:"ignorePreferredTermsOfExistingPods"`
	MinCandidatesPercent  *int     `json:"minCandidateNodesPercentage"`
	MinCandidates         *int     `json:"minCandidateNodesAbsolute"`
	BindTimeoutSeconds    *int64   `json:"bindTimeoutSeconds"`
	Shape                 []Point  `json:"shape"` // of VolumeBinding

	// Of DynamicResources.
	FilterTimeout  *metav1.Duration `json:"filterTimeout"`
	BindingTimeout *metav1.Duration `json:"bindingTimeout"`
}

// points are the extension points at which a plugin may be chosen. In kloop a plugin is one thing: what is switched off
// where it filters is off.
var points = []string{"multiPoint", "preFilter", "filter", "postFilter", "preScore", "score", "reserve", "preBind"}

// ReadConfig reads upstream's KubeSchedulerConfiguration. What it asks for and can't be had, or belongs to a feature that is off, is
// an error.
func ReadConfig(data []byte, on *features.Set) ([]Profile, error) {
	var f configFile
	if err := yaml.UnmarshalStrict(data, &f); err != nil {
		return nil, fmt.Errorf("read the scheduler's configuration: %w", err)
	}
	if f.Kind != "KubeSchedulerConfiguration" || f.APIVersion != "kubescheduler.config.k8s.io/v1" {
		return nil, fmt.Errorf(
			"the scheduler's configuration is a %s of %s: it has to be a KubeSchedulerConfiguration of kubescheduler.config.k8s.io/v1", f.Kind,
			f.APIVersion)
	}
	if len(f.Profiles) == 0 {
		f.Profiles = []profileFile{{SchedulerName: corev1.DefaultSchedulerName}}
	}
	ext, err := readExtenders(f.Extenders)
	if err != nil {
		return nil, err
	}
	var list []Profile
	for _, in := range f.Profiles {
		p, err := in.profile()
		if err == nil {
			err = p.Check()
		}
		if err != nil {
			return nil, err
		}
		if p.Space != nil && !on.On(spaceGate) {
			return nil, fmt.Errorf("scheduler profile %s: unexpected field `shape`, remove it or turn on the feature gate %s", p.Name, spaceGate)
		}
		p.Extenders = ext
		if slices.ContainsFunc(list, func(o Profile) bool { return o.Name == p.Name }) {
			return nil, fmt.Errorf("two scheduler profiles are called %s", p.Name)
		}
		list = append(list, *p)
	}
	return list, nil
}

func readExtenders(files []extenderFile) (list []*Extender, err error) {
	binds := 0
	for _, f := range files {
		e, err := f.extender()
		if err != nil {
			return nil, err
		}
		if e.Bind != "" {
			binds++
		}
		list = append(list, e)
	}
	if binds > 1 {
		return nil, fmt.Errorf("%d scheduler extenders bind pods: one may", binds)
	}
	return list, nil
}

func (f profileFile) profile() (*Profile, error) {
	p := &Profile{Name: f.SchedulerName, Weights: map[string]int64{}}
	if p.Name == "" {
		p.Name = corev1.DefaultSchedulerName
	}
	for point, c := range f.Plugins {
		if !slices.Contains(points, point) {
			return nil, fmt.Errorf("scheduler profile %s: plugins can't be chosen at %s: use %s", p.Name, point, strings.Join(points, ", "))
		}
		if err := p.choose(point, c); err != nil {
			return nil, err
		}
	}
	for _, c := range f.PluginConfig {
		if err := p.tune(c.Args); err != nil {
			return nil, fmt.Errorf("scheduler profile %s: %s: %w", p.Name, c.Name, err)
		}
	}
	return p, nil
}

func (p *Profile) choose(point string, c pluginSet) error {
	for _, d := range c.Disabled {
		if slices.ContainsFunc(c.Enabled, func(e pluginChoice) bool { return e.Name == d.Name }) {
			continue // it is listed to be given a weight
		}
		switch {
		case d.Name == "*" && point != "score":
			return fmt.Errorf("scheduler profile %s: not all plugins can be switched off at %s: name those that are to be", p.Name, point)
		case d.Name == "*":
			for _, x := range plugins() {
				if x.weight > 0 {
					p.Weights[x.name] = 0
				}
			}
		case point == "score" || point == "preScore":
			p.Weights[d.Name] = 0
		default:
			p.Off = append(p.Off, d.Name)
		}
	}
	for _, e := range c.Enabled {
		if e.Weight != nil {
			p.Weights[e.Name] = *e.Weight
		} else if point == "score" {
			delete(p.Weights, e.Name)
		}
	}
	return nil
}

func (p *Profile) tune(a pluginArgs) error {
	p.Affinity = orAffinity(a.AddedAffinity, p.Affinity)
	switch a.DefaultingType {
	case "", "System":
	case "List":
		p.Spread = append([]corev1.TopologySpreadConstraint{}, a.DefaultConstraints...)
	default:
		return fmt.Errorf("defaultingType %q: use System or List", a.DefaultingType)
	}
	if a.DefaultingType != "List" && len(a.DefaultConstraints) > 0 {
		return errors.New("defaultConstraints need the defaultingType List")
	}
	if s := a.ScoringStrategy; s != nil {
		p.Fit = Strategy{Type: s.Type, Of: s.Resources}
		if s.Ratio != nil {
			p.Fit.Shape = s.Ratio.Shape
		}
	}
	p.Ignored = append(p.Ignored, a.IgnoredResources...)
	for _, g := range a.IgnoredResourceGroups {
		p.Ignored = append(p.Ignored, g+"/")
	}
	if a.Resources != nil {
		p.Even = a.Resources
	}
	return p.tunePods(a)
}

// tunePods is about what pods mean to each other, and how long they wait.
func (p *Profile) tunePods(a pluginArgs) error {
	if w := a.HardPodAffinityWeight; w != nil {
		if *w < 0 || *w > 100 {
			return fmt.Errorf("hardPodAffinityWeight %d: use 0 to 100", *w)
		}
		p.HardAffinity = w
	}
	p.OwnPreferences = p.OwnPreferences || a.IgnorePreferredTerms
	if a.MinCandidatesPercent != nil || a.MinCandidates != nil {
		p.VictimsPercent, p.VictimsLeast = *cmp.Or(a.MinCandidatesPercent, new(10)), *cmp.Or(a.MinCandidates, new(100))
		if p.VictimsPercent < 0 || p.VictimsPercent > 100 || p.VictimsLeast < 0 || p.VictimsPercent+p.VictimsLeast == 0 {
			return errors.New("minCandidateNodesPercentage and minCandidateNodesAbsolute: at least one node has to be looked at")
		}
	}
	if s := a.BindTimeoutSeconds; s != nil {
		if *s < 0 {
			return errors.New("bindTimeoutSeconds must not be below 0")
		}
		p.BindTime = max(resource.Seconds(*s), 1) // 0 seconds are not the default's
	}
	if a.Shape != nil {
		p.Space = a.Shape
	}
	return p.tuneDevices(a)
}

func (p *Profile) tuneDevices(a pluginArgs) error {
	if d := a.FilterTimeout; d != nil {
		if d.Duration < 0 {
			return errors.New("filterTimeout must not be below 0")
		}
		p.DeviceTime = cmp.Or(d.Duration, -1) // 0 means that there is no limit
	}
	if d := a.BindingTimeout; d != nil {
		if d.Duration < time.Second {
			return errors.New("bindingTimeout must not be below 1s")
		}
		p.DeviceBindTime = d.Duration
	}
	return nil
}

func orAffinity(a, other *corev1.NodeAffinity) *corev1.NodeAffinity {
	if a != nil {
		return a
	}
	return other
}
