package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/resource"
)

// oldLabels are the labels of nodes that have newer names.
var oldLabels = map[string]string{
	"beta.kubernetes.io/arch":                  `deprecated since v1.14; use "kubernetes.io/arch" instead`,
	"beta.kubernetes.io/os":                    `deprecated since v1.14; use "kubernetes.io/os" instead`,
	"beta.kubernetes.io/instance-type":         `deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`,
	"failure-domain.beta.kubernetes.io/region": `deprecated since v1.17; use "topology.kubernetes.io/region" instead`,
	"failure-domain.beta.kubernetes.io/zone":   `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
}

// oldAnnotations are those of pods that nobody reads any more.
var oldAnnotations = map[string]string{
	"scheduler.alpha.kubernetes.io/critical-pod":  `non-functional in v1.16+; use the "priorityClassName" field instead`,
	"security.alpha.kubernetes.io/sysctls":        `non-functional in v1.11+; use the "sysctls" field instead`,
	"security.alpha.kubernetes.io/unsafe-sysctls": `non-functional in v1.11+; use the "sysctls" field instead`,
}

const (
	seccompPod   = "seccomp.security.alpha.kubernetes.io/pod"
	seccompOne   = "container.seccomp.security.alpha.kubernetes.io/"
	nonFunction  = "non-functional in v1.27+; use the \"seccompProfile\" field instead"
	apparmorText = "deprecated since v1.30; use the \"appArmorProfile\" field instead"
	noSelector   = "a null labelSelector results in matching no pod"
)

// Warnings returns what is not wrong with a pod or template, but will not do what its writer expects. The path of a pod
// is nil.
func Warnings(meta *metav1.ObjectMeta, s *corev1.PodSpec, path *field.Path) []string {
	w := &warner{}
	spec := path.Child("spec")
	for key := range s.NodeSelector {
		w.label(key, spec.Child("nodeSelector").Key(key))
	}
	for i, c := range s.TopologySpreadConstraints {
		at := spec.Child("topologySpreadConstraints").Index(i)
		w.key(c.TopologyKey, at.Child("topologyKey"))
		w.selector(c.LabelSelector, at)
	}
	w.annotations(meta, s, path)
	if s.Affinity != nil {
		w.affinity(s.Affinity, spec.Child("affinity"))
	}
	w.names(s, spec)
	for i := range s.Volumes {
		w.volume(&s.Volumes[i].VolumeSource, spec.Child("volumes").Index(i))
		w.overlaps(&s.Volumes[i])
	}
	w.addresses(s, spec)
	if t := s.TerminationGracePeriodSeconds; t != nil && *t < 0 {
		w.warn(spec.Child("terminationGracePeriodSeconds"), "must be >= 0; negative values are invalid and will be treated as 1")
	}
	eachContainer(s, spec, w.container)
	w.ports(s, spec)
	w.amounts(s.Overhead, func() *field.Path { return spec.Child("overhead") })
	return w.list
}

// addresses warns of those that other programs may read in another way.
func (w *warner) addresses(s *corev1.PodSpec, spec *field.Path) {
	add := func(at *field.Path, ip string) { w.list = append(w.list, validation.GetWarningsForIP(at, ip)...) }
	for i, a := range s.HostAliases {
		add(spec.Child("hostAliases").Index(i).Child("ip"), a.IP)
	}
	if s.DNSConfig != nil {
		for i, ip := range s.DNSConfig.Nameservers {
			add(spec.Child("dnsConfig", "nameservers").Index(i), ip)
		}
	}
}

// annotations warns of those that have become fields.
func (w *warner) annotations(meta *metav1.ObjectMeta, s *corev1.PodSpec, path *field.Path) {
	if len(meta.Annotations) == 0 {
		return
	}
	at := path.Child("metadata", "annotations")
	says := func(key, text string) {
		if _, set := meta.Annotations[key]; set {
			w.warn(at.Key(key), "%s", text)
		}
	}
	for key, text := range oldAnnotations {
		says(key, text)
	}
	pod := s.SecurityContext
	if pod == nil || pod.SeccompProfile == nil {
		says(seccompPod, nonFunction)
	}
	everyContainer(s, func(c *corev1.Container) {
		if c.SecurityContext == nil || c.SecurityContext.SeccompProfile == nil {
			says(seccompOne+c.Name, nonFunction)
		}
		if key := apparmorOne + c.Name; path != nil && confinedByNote(meta.Annotations, c, s) {
			says(key, apparmorText)
		}
	})
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

// key warns of a label that stands in a field, where label takes it from the path.
func (w *warner) key(key string, path *field.Path) {
	if says, old := oldLabels[key]; old {
		w.warn(path, "%s is %s", key, says)
	}
}

func (w *warner) selector(sel *metav1.LabelSelector, path *field.Path) {
	if sel == nil {
		w.warn(path.Child("labelSelector"), noSelector)
	}
}

func (w *warner) affinity(a *corev1.Affinity, path *field.Path) {
	if a == nil {
		return
	}
	if n := a.NodeAffinity; n != nil {
		at := path.Child("nodeAffinity")
		if n.RequiredDuringSchedulingIgnoredDuringExecution != nil {
			for i, t := range n.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
				w.term(t, false, at.Child(required, "nodeSelectorTerms").Index(i))
			}
		}
		for i, t := range n.PreferredDuringSchedulingIgnoredDuringExecution {
			w.term(t.Preference, true, at.Child(preferred).Index(i).Child("preference"))
		}
	}
	if p := a.PodAffinity; p != nil {
		w.near(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAffinity"))
	}
	if p := a.PodAntiAffinity; p != nil {
		w.near(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAntiAffinity"))
	}
}

func (w *warner) near(must []corev1.PodAffinityTerm, may []corev1.WeightedPodAffinityTerm, path *field.Path) {
	for i, t := range must {
		w.selector(t.LabelSelector, path.Child(required).Index(i))
	}
	for i, t := range may {
		w.selector(t.PodAffinityTerm.LabelSelector, path.Child(preferred).Index(i).Child("podAffinityTerm"))
	}
}

// term warns of old labels, and of values that no label has unless validation refuses them anyway.
func (w *warner) term(t corev1.NodeSelectorTerm, values bool, path *field.Path) {
	for i, e := range t.MatchExpressions {
		at := path.Child("matchExpressions").Index(i)
		w.key(e.Key, at.Child("key"))
		for k := 0; values && k < len(e.Values); k++ {
			for _, says := range validation.IsValidLabelValue(e.Values[k]) {
				w.warn(at.Child("values").Index(k), "%s is invalid, %s", e.Values[k], says)
			}
		}
	}
}

// NodeTermWarnings warns of old labels in the terms of a volume's node affinity.
func NodeTermWarnings(terms []corev1.NodeSelectorTerm, path *field.Path) []string {
	w := &warner{}
	for i, t := range terms {
		w.term(t, false, path.Index(i))
	}
	return w.list
}

// LabelWarnings warns of a label of nodes that has a newer name.
func LabelWarnings(key string, path *field.Path) []string {
	w := &warner{}
	w.label(key, path)
	return w.list
}

// names warns of what is there twice, or has none.
func (w *warner) names(s *corev1.PodSpec, spec *field.Path) {
	if len(s.HostAliases)+len(s.ImagePullSecrets) == 0 {
		return
	}
	ips, secrets := sets.New[string](), sets.New[string]()
	for i, a := range s.HostAliases {
		if ips.Has(a.IP) {
			w.warn(spec.Child("hostAliases").Index(i).Child("ip"), "duplicate ip %q", a.IP)
		}
		ips.Insert(a.IP)
	}
	for i, r := range s.ImagePullSecrets {
		at := spec.Child("imagePullSecrets").Index(i).Child("name")
		if secrets.Has(r.Name) {
			w.warn(at, "duplicate name %q", r.Name)
		}
		if r.Name == "" {
			w.warn(at, "invalid empty name %q", r.Name)
		}
		secrets.Insert(r.Name)
	}
}

func (w *warner) container(c *corev1.Container, at spot) {
	seen := sets.New[string]()
	for i, e := range c.Env {
		self := "$(" + e.Name + ")" // a value may build on the one before
		if seen.Has(e.Name) && (e.ValueFrom != nil || e.Value == self || !strings.Contains(e.Value, self)) {
			w.warn(at.path().Child("env").Index(i), "hides previous definition of %q, which may be dropped when using apply", e.Name)
		}
		seen.Insert(e.Name)
	}
	w.amounts(c.Resources.Limits, func() *field.Path { return at.path().Child("resources", "limits") })
	w.amounts(c.Resources.Requests, func() *field.Path { return at.path().Child("resources", "requests") })
}

// amounts warns of parts of bytes.
func (w *warner) amounts(list corev1.ResourceList, path func() *field.Path) {
	for _, n := range []corev1.ResourceName{corev1.ResourceEphemeralStorage, corev1.ResourceMemory, corev1.ResourceStorage} {
		if q, ok := list[n]; ok && q.MilliValue()%1000 != 0 {
			w.warn(path().Key(string(n)), "fractional byte value %q is invalid, must be an integer", q.String())
		}
	}
}

// ClaimWarnings returns what will not work as expected in a claim for storage.
func ClaimWarnings(s *corev1.PersistentVolumeClaimSpec, path *field.Path) []string {
	w := &warner{}
	w.amounts(s.Resources.Limits, func() *field.Path { return path.Child("resources", "limits") })
	w.amounts(s.Resources.Requests, func() *field.Path { return path.Child("resources", "requests") })
	return w.list
}

// TemplateWarnings returns the warnings about a pod template, if it changed; old may be nil.
func TemplateWarnings(t, old *corev1.PodTemplateSpec, path *field.Path) []string {
	if t == nil || old != nil && resource.Same(t, old) {
		return nil
	}
	return Warnings(&t.ObjectMeta, &t.Spec, path)
}
