package podspec

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
)

// oldLabels are the labels of nodes that have newer names.
var oldLabels = map[string]string{
	"beta.kubernetes.io/arch":                  `deprecated since v1.14; use "kubernetes.io/arch" instead`,
	"beta.kubernetes.io/os":                    `deprecated since v1.14; use "kubernetes.io/os" instead`,
	"beta.kubernetes.io/instance-type":         `deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`,
	"failure-domain.beta.kubernetes.io/region": `deprecated since v1.17; use "topology.kubernetes.io/region" instead`,
	"failure-domain.beta.kubernetes.io/zone":   `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
}

const (
	seccompPod   = "seccomp.security.alpha.kubernetes.io/pod"
	seccompOne   = "container.seccomp.security.alpha.kubernetes.io/"
	nonFunction  = "non-functional in v1.27+; use the \"seccompProfile\" field instead"
	apparmorText = "deprecated since v1.30; use the \"appArmorProfile\" field instead"
)

// Warnings returns what is not wrong with a pod or template, but will not do what its writer expects.
func Warnings(meta *metav1.ObjectMeta, s *v1.PodSpec, path *field.Path) []string {
	w := &warner{}
	spec := path.Child("spec")
	for key := range meta.Annotations {
		at := path.Child("metadata", "annotations").Key(key)
		switch {
		case key == seccompPod, strings.HasPrefix(key, seccompOne):
			w.warn(at, nonFunction)
		case strings.HasPrefix(key, apparmorOne):
			w.warn(at, apparmorText)
		}
	}
	for key := range s.NodeSelector {
		w.label(key, spec.Child("nodeSelector").Key(key))
	}
	for i, c := range s.TopologySpreadConstraints {
		w.label(c.TopologyKey, spec.Child("topologySpreadConstraints").Index(i).Child("topologyKey"))
	}
	w.affinity(s.Affinity, spec.Child("affinity"))
	w.pulls(s.ImagePullSecrets, spec.Child("imagePullSecrets"))
	for i := range s.Volumes {
		w.volume(&s.Volumes[i].VolumeSource, spec.Child("volumes").Index(i))
	}
	if t := s.TerminationGracePeriodSeconds; t != nil && *t < 0 {
		w.warn(spec.Child("terminationGracePeriodSeconds"), "must be >= 0; negative values are invalid and will be treated as 1")
	}
	eachContainer(s, spec, w.container)
	w.amounts(s.Overhead, spec.Child("overhead"))
	return w.list
}

type warner struct{ list []string }

func (w *warner) warn(path *field.Path, format string, args ...any) {
	w.list = append(w.list, path.String()+": "+fmt.Sprintf(format, args...))
}

func (w *warner) label(key string, path *field.Path) {
	if says, old := oldLabels[key]; old {
		w.warn(path, "%s", says)
	}
}

func (w *warner) affinity(a *v1.Affinity, path *field.Path) {
	if a == nil || a.NodeAffinity == nil {
		return
	}
	path = path.Child("nodeAffinity")
	if r := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
		for i := range r.NodeSelectorTerms {
			w.term(&r.NodeSelectorTerms[i], path.Child(required, "nodeSelectorTerms").Index(i))
		}
	}
	for i := range a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
		w.term(&a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution[i].Preference, path.Child(preferred).Index(i).Child("preference"))
	}
}

func (w *warner) term(t *v1.NodeSelectorTerm, path *field.Path) {
	for i, e := range t.MatchExpressions {
		w.label(e.Key, path.Child("matchExpressions").Index(i).Child("key"))
	}
}

func (w *warner) pulls(list []v1.LocalObjectReference, path *field.Path) {
	for i, r := range list {
		if r.Name == "" {
			w.warn(path.Index(i), "invalid empty name %q", r.Name)
		}
	}
}

func (w *warner) volume(s *v1.VolumeSource, path *field.Path) {
	for _, f := range []struct {
		name, says string
		set        bool
	}{{"gitRepo", "deprecated in v1.11, and disabled by default in v1.33+", s.GitRepo != nil},
		{"flocker", "deprecated in v1.22, non-functional in v1.25+", s.Flocker != nil},
		{"glusterfs", "deprecated in v1.25, non-functional in v1.26+", s.Glusterfs != nil},
		{"quobyte", "deprecated in v1.22, non-functional in v1.25+", s.Quobyte != nil},
		{"scaleIO", "deprecated in v1.16, non-functional in v1.22+", s.ScaleIO != nil},
		{"storageos", "deprecated in v1.22, non-functional in v1.25+", s.StorageOS != nil},
		{"cephfs", "deprecated in v1.28, non-functional in v1.31+", s.CephFS != nil},
		{"rbd", "deprecated in v1.28, non-functional in v1.31+", s.RBD != nil}} {
		if f.set {
			w.warn(path.Child(f.name), "%s", f.says)
		}
	}
	if s.Ephemeral != nil && s.Ephemeral.VolumeClaimTemplate != nil {
		w.list = append(w.list, ClaimWarnings(&s.Ephemeral.VolumeClaimTemplate.Spec, path.Child("ephemeral", "volumeClaimTemplate", "spec"))...)
	}
}

func (w *warner) container(c *v1.Container, path *field.Path) {
	seen := sets.New[string]()
	for i, e := range c.Env {
		if seen.Has(e.Name) {
			w.warn(path.Child("env").Index(i), "hides previous definition of %q, which may be dropped when using apply", e.Name)
		}
		seen.Insert(e.Name)
	}
	w.amounts(c.Resources.Limits, path.Child("resources", "limits"))
	w.amounts(c.Resources.Requests, path.Child("resources", "requests"))
	ports := map[string]int{}
	for i, p := range c.Ports {
		k := fmt.Sprintf("%s/%d/%d/%s", p.Protocol, p.ContainerPort, p.HostPort, p.HostIP)
		if before, dup := ports[k]; dup {
			w.warn(path.Child("ports").Index(i), "duplicate port definition with %s", path.Child("ports").Index(before))
		}
		ports[k] = i
	}
}

// amounts warns of parts of bytes.
func (w *warner) amounts(list v1.ResourceList, path *field.Path) {
	for _, n := range []v1.ResourceName{v1.ResourceEphemeralStorage, v1.ResourceMemory, v1.ResourceStorage} {
		if q, ok := list[n]; ok && q.MilliValue()%1000 != 0 {
			w.warn(path.Key(string(n)), "fractional byte value %q is invalid, must be an integer", q.String())
		}
	}
}

// ClaimWarnings returns what will not work as expected in a claim for storage.
func ClaimWarnings(s *v1.PersistentVolumeClaimSpec, path *field.Path) []string {
	w := &warner{}
	w.amounts(s.Resources.Limits, path.Child("resources", "limits"))
	w.amounts(s.Resources.Requests, path.Child("resources", "requests"))
	return w.list
}

// TemplateWarnings returns the warnings about a pod template, if it changed; old may be nil.
func TemplateWarnings(t, old *v1.PodTemplateSpec, path *field.Path) []string {
	if t == nil || old != nil && rule.Same(t, old) {
		return nil
	}
	return Warnings(&t.ObjectMeta, &t.Spec, path)
}
