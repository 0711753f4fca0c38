package apps

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/cell"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/kinds/template"
	"github.com/kloop-dev/kloop/resource"
)

// StatefulSets declares the kind.
var StatefulSets = &resource.Def[*appsv1.StatefulSet]{
	GVK: gvk("StatefulSet"), Plural: "statefulsets", Short: []string{"sts"}, Categories: all, Namespaced: true,
	Quirks:     resource.Quirks{MetaUpdateOnly: true, Blank: `{"spec":{"replicas":0}}`},
	Generation: true, Status: true, Name: rule.LabelName,
	Scale: &resource.Scaled[*appsv1.StatefulSet]{
		Get: func(s *appsv1.StatefulSet) resource.Scale {
			return scaleOf(s.Spec.Replicas, s.Status.Replicas, s.Spec.Selector)
		},
		Set: func(s *appsv1.StatefulSet, n int32) { s.Spec.Replicas = &n },
	},
	Gated: resource.Gated[*appsv1.StatefulSet]{Default: defaultMaxUnavailable,
		Drop:     resource.Serving(dropFromStatefulSet),
		Validate: resource.Serving(validateStatefulSet)},
	Early:   labelled(func(o *appsv1.StatefulSet) map[string]string { return o.Spec.Template.Labels }, "apps/v1beta1"),
	Default: defaultStatefulSet, ValidateStatus: resource.Serving(validateStatefulSetStatus),
	Warn: resource.Serving(warnStatefulSet),
	Columns: append([]resource.Column[*appsv1.StatefulSet]{
		resource.Col("Ready", "string", func(s *appsv1.StatefulSet) any {
			return fmt.Sprintf("%d/%d", s.Status.ReadyReplicas, number(s.Spec.Replicas))
		}),
		resource.Age[*appsv1.StatefulSet](),
	}, cell.Pods(func(s *appsv1.StatefulSet) *corev1.PodTemplateSpec { return &s.Spec.Template })...),
}

// defaultMaxUnavailable says that pods are replaced one by one.
func defaultMaxUnavailable(on *features.Set, s *appsv1.StatefulSet) {
	if r := s.Spec.UpdateStrategy.RollingUpdate; r != nil && on.On("MaxUnavailableStatefulSet") &&
		s.Spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType {
		rule.Fill(&r.MaxUnavailable, intstr.FromInt32(1))
	}
}

// dropFromStatefulSet drops what features that are off would use.
func dropFromStatefulSet(on *features.Set, s, old *appsv1.StatefulSet) {
	template.Drop(on, s, old, func(s *appsv1.StatefulSet) *corev1.PodTemplateSpec { return &s.Spec.Template })
	if on.On("MaxUnavailableStatefulSet") || old != nil && manyAtOnce(old) {
		return
	}
	if r := s.Spec.UpdateStrategy.RollingUpdate; r != nil {
		r.MaxUnavailable = nil
	}
}

func manyAtOnce(s *appsv1.StatefulSet) bool {
	r := s.Spec.UpdateStrategy.RollingUpdate
	return r != nil && r.MaxUnavailable != nil
}

// defaultStatefulSet keeps claims when the set shrinks or goes (KEP-1847): data is only removed by those who say so. Pods come one after
// the other unless told otherwise.
func defaultStatefulSet(set *appsv1.StatefulSet) {
	s := &set.Spec
	rule.FillZero(&s.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
	if s.UpdateStrategy.Type == "" { // a type that was named brings no parameters
		s.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
		rule.Fill(&s.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
	}
	if r := s.UpdateStrategy.RollingUpdate; r != nil && s.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType {
		rule.Fill(&r.Partition, 0)
	}
	rule.Fill(&s.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	rule.FillZero(&s.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	rule.FillZero(&s.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	rule.Fill(&s.Replicas, 1)
	rule.Fill(&s.RevisionHistoryLimit, 10)
	podspec.DefaultTemplate(&s.Template)
	for i := range s.VolumeClaimTemplates {
		c := &s.VolumeClaimTemplates[i]
		// Upstream's conversion says what the templates are, whatever was sent.
		c.APIVersion, c.Kind = "v1", "PersistentVolumeClaim"
		podspec.DefaultClaim(&c.Spec)
		rule.FillZero(&c.Status.Phase, corev1.ClaimPending)
	}
}

// validateStatefulSet judges the pod template with the volumes that the claim templates add to it. Claim templates are looked at when the
// set is made: later they can't change.
func validateStatefulSet(on *features.Set, set, old *appsv1.StatefulSet) (errs field.ErrorList) {
	s, spec := &set.Spec, field.NewPath("spec")
	w := workload{on: on, kind: "statefulset", ends: "StatefulSet", selector: s.Selector, template: asMade(s), stateful: true}
	var claims, name field.ErrorList
	if old != nil {
		w.oldSelector, w.oldTemplate = old.Spec.Selector, asMade(&old.Spec)
	} else {
		name = rule.Format(s.ServiceName, spec.Child("serviceName"), serviceName)
		for i := range s.VolumeClaimTemplates {
			at := spec.Child("volumeClaimTemplates").Index(i).Child("spec")
			claims = append(claims, podspec.ValidateClaimSpec(&s.VolumeClaimTemplates[i].Spec, at)...)
		}
	}
	if p := s.PodManagementPolicy; p != appsv1.OrderedReadyPodManagement && p != appsv1.ParallelPodManagement {
		errs = append(errs, field.Invalid(spec.Child("podManagementPolicy"), p, "must be 'OrderedReady' or 'Parallel'"))
	}
	errs = append(errs, statefulSetStrategy(s.UpdateStrategy, spec.Child("updateStrategy"))...)
	errs = append(errs, claims...)
	errs = append(errs, retention(s.PersistentVolumeClaimRetentionPolicy, spec.Child("persistentVolumeClaimRetentionPolicy"))...)
	errs = append(errs, rule.AtLeastPtr(s.Replicas, 0, spec.Child("replicas"))...)
	errs = append(errs, rule.AtLeast(s.MinReadySeconds, 0, spec.Child("minReadySeconds"))...)
	if s.Ordinals != nil {
		errs = append(errs, rule.AtLeast(s.Ordinals.Start, 0, spec.Child("ordinals", "start"))...)
	}
	errs = append(errs, name...)
	if errs = append(errs, w.validate(spec)...); old != nil {
		errs = append(errs, statefulSetUpdate(on, set, old, spec)...)
	}
	return errs
}

// warnStatefulSet also warns of its claims, and of a limit that is none: it is refused nowhere.
func warnStatefulSet(set, old *appsv1.StatefulSet) []string {
	if old != nil && resource.Same(set.Spec, old.Spec) {
		return nil
	}
	s, spec := &set.Spec, field.NewPath("spec")
	list := template.Warnings("", &s.Template, spec.Child("template"))
	for i := range s.VolumeClaimTemplates {
		list = append(list, podspec.ClaimWarnings(&s.VolumeClaimTemplates[i].Spec, spec.Child("volumeClaimTemplates").Index(i))...)
	}
	if s.RevisionHistoryLimit != nil && *s.RevisionHistoryLimit < 0 {
		list = append(list, "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended")
	}
	return list
}

// asMade returns the template as pods are made from it: with names that the controller gives each pod, whatever the template says, and
// with the volumes that it adds for claims: containers may mount them. They come first, as upstream's do, and take the place of those of
// the same name.
func asMade(s *appsv1.StatefulSetSpec) *corev1.PodTemplateSpec {
	t := s.Template
	t.Spec.Hostname, t.Spec.Subdomain = "", ""
	if len(s.VolumeClaimTemplates) == 0 {
		return &t
	}
	var claims []corev1.Volume
	taken := sets.New[string]()
	for _, c := range s.VolumeClaimTemplates {
		if !taken.Has(c.Name) {
			taken.Insert(c.Name)
			claims = append(claims, corev1.Volume{Name: c.Name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c.Name}}})
		}
	}
	t.Spec.Volumes = claims
	for _, v := range s.Template.Spec.Volumes {
		if !taken.Has(v.Name) {
			t.Spec.Volumes = append(t.Spec.Volumes, v)
		}
	}
	return &t
}

// serviceName allows a set without a service.
func serviceName(name string) []string {
	if name == "" {
		return nil
	}
	return rule.Label(name)
}

// statefulSetUpdate refuses changes of all but the fields that the controller can roll out. Up to 1.36 that is one error for all.
func statefulSetUpdate(on *features.Set, set, old *appsv1.StatefulSet, spec *field.Path) field.ErrorList {
	if on.AtLeast(37) {
		return statefulSetFixed(&set.Spec, &old.Spec, spec)
	}
	merged := *set.Spec.DeepCopy()
	o := old.Spec
	merged.Replicas, merged.Ordinals, merged.Template = o.Replicas, o.Ordinals, o.Template
	merged.UpdateStrategy, merged.MinReadySeconds = o.UpdateStrategy, o.MinReadySeconds
	merged.PersistentVolumeClaimRetentionPolicy = o.PersistentVolumeClaimRetentionPolicy
	merged.RevisionHistoryLimit = o.RevisionHistoryLimit
	for i := range min(len(merged.VolumeClaimTemplates), len(o.VolumeClaimTemplates)) { // which earlier stored ones do not say
		merged.VolumeClaimTemplates[i].TypeMeta = o.VolumeClaimTemplates[i].TypeMeta
	}
	if resource.Same(merged, o) {
		return nil
	}
	return field.ErrorList{field.Forbidden(spec, "updates to statefulset spec for fields other than 'replicas', "+
		"'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' "+
		"and 'minReadySeconds' are forbidden")}
}

// statefulSetFixed are fields by which pods and claims that exist already were named and made.
func statefulSetFixed(s, old *appsv1.StatefulSetSpec, spec *field.Path) (errs field.ErrorList) {
	claims := slices.Clone(s.VolumeClaimTemplates)
	for i := range min(len(claims), len(old.VolumeClaimTemplates)) { // which earlier stored ones do not say
		claims[i].TypeMeta = old.VolumeClaimTemplates[i].TypeMeta
	}
	errs = append(errs, rule.Frozen(s.Selector, old.Selector, spec.Child("selector"))...)
	errs = append(errs, rule.Frozen(claims, old.VolumeClaimTemplates, spec.Child("volumeClaimTemplates"))...)
	errs = append(errs, rule.Frozen(s.ServiceName, old.ServiceName, spec.Child("serviceName"))...)
	return append(errs, rule.Frozen(s.PodManagementPolicy, old.PodManagementPolicy, spec.Child("podManagementPolicy"))...)
}

// statefulSetStrategy checks the partition, the ordinal from which on pods get the new template, and how many of them may be away at
// once.
func statefulSetStrategy(s appsv1.StatefulSetUpdateStrategy, path *field.Path) (errs field.ErrorList) {
	rolling := path.Child("rollingUpdate")
	switch s.Type {
	case "":
		return field.ErrorList{field.Required(path, "")}
	case appsv1.OnDeleteStatefulSetStrategyType:
		if s.RollingUpdate != nil {
			errs = append(errs, field.Invalid(rolling, rule.Internal(s.RollingUpdate), "only allowed for updateStrategy 'RollingUpdate'"))
		}
	case appsv1.RollingUpdateStatefulSetStrategyType:
		if s.RollingUpdate == nil {
			return nil
		}
		errs = append(errs, rule.AtLeastPtr(s.RollingUpdate.Partition, 0, rolling.Child("partition"))...)
		errs = append(errs, statefulSetUnavailable(s.RollingUpdate.MaxUnavailable, rolling.Child("maxUnavailable"))...)
	default:
		errs = append(errs, field.Invalid(path, rule.Internal(s), "must be 'RollingUpdate' or 'OnDelete'"))
	}
	return errs
}

func statefulSetUnavailable(v *intstr.IntOrString, path *field.Path) field.ErrorList {
	if v == nil {
		return nil
	}
	errs := rule.CountOrPercent(*v, path)
	if rule.Number(*v) == 0 {
		errs = append(errs, field.Invalid(path, *v, "cannot be 0"))
	}
	return append(errs, rule.AtMostAll(*v, path)...)
}

func retention(p *appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy, path *field.Path) (errs field.ErrorList) {
	if p == nil {
		return nil
	}
	keep, drop := appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	errs = append(errs, rule.Listed(p.WhenDeleted, path.Child("whenDeleted"), keep, drop)...)
	return append(errs, rule.Listed(p.WhenScaled, path.Child("whenScaled"), keep, drop)...)
}

func validateStatefulSetStatus(set, old *appsv1.StatefulSet) (errs field.ErrorList) {
	s, path := set.Status, field.NewPath("status")
	errs = nonNegative(path, map[string]int32{"replicas": s.Replicas, "readyReplicas": s.ReadyReplicas,
		"currentReplicas": s.CurrentReplicas, "updatedReplicas": s.UpdatedReplicas,
		"availableReplicas": s.AvailableReplicas})
	errs = append(errs, rule.AtLeast(s.ObservedGeneration, 0, path.Child("observedGeneration"))...)
	errs = append(errs, sinks(s.CollisionCount, old.Status.CollisionCount, path.Child("collisionCount"))...)
	return append(errs, notMore(path, []bound{
		{"readyReplicas", s.ReadyReplicas, s.Replicas, "status.replicas"},
		{"currentReplicas", s.CurrentReplicas, s.Replicas, "status.replicas"},
		{"updatedReplicas", s.UpdatedReplicas, s.Replicas, "status.replicas"},
		{"availableReplicas", s.AvailableReplicas, s.Replicas, "status.replicas"},
		{"availableReplicas", s.AvailableReplicas, s.ReadyReplicas, "status.readyReplicas"},
	})...)
}
