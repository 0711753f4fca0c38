package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
)

const (
	required  = "requiredDuringSchedulingIgnoredDuringExecution"
	preferred = "preferredDuringSchedulingIgnoredDuringExecution"
)

func checkAffinity(a *corev1.Affinity, path *field.Path) (errs field.ErrorList) {
	if a == nil {
		return nil
	}
	if n, at := a.NodeAffinity, path.Child("nodeAffinity"); n != nil {
		if n.RequiredDuringSchedulingIgnoredDuringExecution != nil {
			errs = append(errs, ValidateNodeSelector(n.RequiredDuringSchedulingIgnoredDuringExecution, at.Child(required))...)
		}
		for i, t := range n.PreferredDuringSchedulingIgnoredDuringExecution {
			at := at.Child(preferred).Index(i)
			errs = append(errs, checkWeight(t.Weight, at)...)
			errs = append(errs, checkNodeTerm(&t.Preference, true, at.Child("preference"))...)
		}
	}
	if p, at := a.PodAffinity, path.Child("podAffinity"); p != nil {
		errs = append(errs, checkPodTerms(p.RequiredDuringSchedulingIgnoredDuringExecution, at.Child(required))...)
		errs = append(errs, checkWeightedTerms(p.PreferredDuringSchedulingIgnoredDuringExecution, at.Child(preferred))...)
	}
	if p, at := a.PodAntiAffinity, path.Child("podAntiAffinity"); p != nil {
		errs = append(errs, checkPodTerms(p.RequiredDuringSchedulingIgnoredDuringExecution, at.Child(required))...)
		errs = append(errs, checkWeightedTerms(p.PreferredDuringSchedulingIgnoredDuringExecution, at.Child(preferred))...)
	}
	return errs
}

// ValidateNodeSelector checks which nodes are asked for.
func ValidateNodeSelector(s *corev1.NodeSelector, path *field.Path) (errs field.ErrorList) {
	path = path.Child("nodeSelectorTerms")
	if len(s.NodeSelectorTerms) == 0 {
		return field.ErrorList{field.Required(path, "must have at least one node selector term")}
	}
	for i := range s.NodeSelectorTerms {
		errs = append(errs, checkNodeTerm(&s.NodeSelectorTerms[i], false, path.Index(i))...)
	}
	return errs
}

// checkNodeTerm checks which nodes a term means. With lax, values may be such as no label has: only a preference is lost.
func checkNodeTerm(t *corev1.NodeSelectorTerm, lax bool, path *field.Path) (errs field.ErrorList) {
	for i := range t.MatchExpressions {
		errs = append(errs, checkNodeLabel(&t.MatchExpressions[i], lax, path.Child("matchExpressions").Index(i))...)
	}
	for i := range t.MatchFields {
		errs = append(errs, checkNodeField(&t.MatchFields[i], path.Child("matchFields").Index(i))...)
	}
	return errs
}

func checkNodeLabel(r *corev1.NodeSelectorRequirement, lax bool, path *field.Path) (errs field.ErrorList) {
	values := path.Child("values")
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) == 0 {
			errs = append(errs, field.Required(values, "must be specified when `operator` is 'In' or 'NotIn'"))
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			errs = append(errs, field.Forbidden(values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(r.Values) != 1 {
			errs = append(errs, field.Required(values, "must be specified single value when `operator` is 'Lt' or 'Gt'"))
		}
	default:
		errs = append(errs, field.Invalid(path.Child("operator"), r.Operator, "not a valid selector operator"))
	}
	errs = append(errs, metavalidation.ValidateLabelName(r.Key, path.Child("key"))...)
	for i := 0; !lax && i < len(r.Values); i++ {
		errs = append(errs, rule.Format(r.Values[i], values.Index(i), utilvalidation.IsValidLabelValue)...)
	}
	return errs
}

// checkNodeField checks a requirement on a field of the node; only its name can be asked for.
func checkNodeField(r *corev1.NodeSelectorRequirement, path *field.Path) (errs field.ErrorList) {
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) != 1 {
			errs = append(errs, field.Required(path.Child("values"),
				"must be only one value when `operator` is 'In' or 'NotIn' for node field selector"))
		}
	default:
		errs = append(errs, field.Invalid(path.Child("operator"), r.Operator, "not a valid selector operator"))
	}
	if r.Key != metav1.ObjectNameField {
		return append(errs, field.Invalid(path.Child("key"), r.Key, "not a valid field selector key"))
	}
	for i, v := range r.Values {
		errs = append(errs, rule.Format(v, path.Child("values").Index(i), rule.Subdomain)...)
	}
	return errs
}

func checkPodTerms(terms []corev1.PodAffinityTerm, path *field.Path) (errs field.ErrorList) {
	for i := range terms {
		errs = append(errs, checkPodTerm(&terms[i], path.Index(i))...)
	}
	return errs
}

func checkWeightedTerms(terms []corev1.WeightedPodAffinityTerm, path *field.Path) (errs field.ErrorList) {
	for i := range terms {
		errs = append(errs, checkWeight(terms[i].Weight, path.Index(i))...)
		errs = append(errs, checkPodTerm(&terms[i].PodAffinityTerm, path.Index(i).Child("podAffinityTerm"))...)
	}
	return errs
}

// checkWeight checks how much a preference counts.
func checkWeight(n int32, path *field.Path) field.ErrorList {
	if n < 1 || n > 100 {
		return field.ErrorList{field.Invalid(path.Child("weight"), n, "must be in the range 1-100")}
	}
	return nil
}

// checkTopologyKey asks for a label of nodes.
func checkTopologyKey(key string, path *field.Path) field.ErrorList {
	if key == "" {
		return field.ErrorList{field.Required(path.Child("topologyKey"), "can not be empty")}
	}
	return nil
}

func checkPodTerm(t *corev1.PodAffinityTerm, path *field.Path) (errs field.ErrorList) {
	add := func(list field.ErrorList) { errs = append(errs, list...) }
	add(checkSelector(t.LabelSelector, path.Child("labelSelector")))
	add(checkSelector(t.NamespaceSelector, path.Child("namespaceSelector")))
	for _, ns := range t.Namespaces {
		add(rule.Format(ns, path.Child("namespace"), rule.Label))
	}
	add(checkKeys(t.MatchLabelKeys, t.MismatchLabelKeys, t.LabelSelector, path))
	add(checkTopologyKey(t.TopologyKey, path))
	add(metavalidation.ValidateLabelName(t.TopologyKey, path.Child("topologyKey")))
	return errs
}

// checkKeys checks the keys of labels whose values in the pod itself complete a selector.
func checkKeys(match, mismatch []string, s *metav1.LabelSelector, path *field.Path) field.ErrorList {
	errs := checkMatchKeys(match, s, path.Child("matchLabelKeys"))
	errs = append(errs, checkMatchKeys(mismatch, s, path.Child("mismatchLabelKeys"))...)
	errs = append(errs, checkMergedKeys(match, s, path)...)
	unlike := sets.New(mismatch...)
	for i, key := range match {
		if unlike.Has(key) {
			errs = append(errs, field.Invalid(path.Child("matchLabelKeys").Index(i), key, "exists in both matchLabelKeys and mismatchLabelKeys"))
		}
	}
	return errs
}

// checkMergedKeys finds keys that the selector had before the server wrote them there. Their errors lack the field's
// name: clients know them so.
func checkMergedKeys(keys []string, s *metav1.LabelSelector, path *field.Path) (errs field.ErrorList) {
	if s == nil || len(keys) == 0 {
		return nil
	}
	seen, at := sets.KeySet(s.MatchLabels), make(map[string]int, len(keys))
	for i, key := range keys { // the last of each
		at[key] = i
	}
	for _, e := range s.MatchExpressions {
		if i, is := at[e.Key]; is && seen.Has(e.Key) {
			errs = append(errs, field.Invalid(path.Index(i), e.Key, "exists in both matchLabelKeys and labelSelector"))
		}
		seen.Insert(e.Key)
	}
	return errs
}

func checkSelector(s *metav1.LabelSelector, path *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	return rule.Selector(s, path)
}

func checkMatchKeys(keys []string, s *metav1.LabelSelector, path *field.Path) (errs field.ErrorList) {
	if len(keys) == 0 {
		return nil
	}
	if s == nil {
		return field.ErrorList{field.Forbidden(path, "must not be specified when labelSelector is not set")}
	}
	for i, key := range keys {
		errs = append(errs, metavalidation.ValidateLabelName(key, path.Index(i))...)
	}
	return errs
}

func checkSpread(list []corev1.TopologySpreadConstraint, path *field.Path) (errs field.ErrorList) {
	add := func(list ...*field.Error) { errs = append(errs, list...) }
	type pair struct {
		key  string
		when corev1.UnsatisfiableConstraintAction
	}
	left := map[pair]int{} // of those that are still to come
	for i := range list {
		left[pair{list[i].TopologyKey, list[i].WhenUnsatisfiable}]++
	}
	for i := range list {
		c, at := &list[i], path.Index(i)
		add(positive(c.MaxSkew, at.Child("maxSkew"))...)
		add(checkTopologyKey(c.TopologyKey, at)...)
		add(rule.Among(c.WhenUnsatisfiable, at.Child("whenUnsatisfiable"), corev1.DoNotSchedule, corev1.ScheduleAnyway)...)
		same := pair{c.TopologyKey, c.WhenUnsatisfiable}
		if left[same]--; left[same] > 0 {
			add(field.Duplicate(at.Child("{topologyKey, whenUnsatisfiable}"), fmt.Sprintf("{%s, %s}", c.TopologyKey, c.WhenUnsatisfiable)))
		}
		if m := c.MinDomains; m != nil {
			add(positive(*m, at.Child("minDomains"))...)
			if c.WhenUnsatisfiable != corev1.DoNotSchedule {
				add(field.Invalid(at.Child("minDomains"), *m,
					fmt.Sprintf("can only use minDomains if whenUnsatisfiable=%s, not %s", corev1.DoNotSchedule, c.WhenUnsatisfiable)))
			}
		}
		add(rule.AmongPtr(c.NodeAffinityPolicy, at.Child("nodeAffinityPolicy"), corev1.NodeInclusionPolicyHonor,
			corev1.NodeInclusionPolicyIgnore)...)
		add(rule.AmongPtr(c.NodeTaintsPolicy, at.Child("nodeTaintsPolicy"), corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)...)
		add(checkKeys(c.MatchLabelKeys, nil, c.LabelSelector, at)...)
		add(checkSelector(c.LabelSelector, at.Child("labelSelector"))...)
	}
	return errs
}

func positive(n int32, path *field.Path) field.ErrorList {
	if n < 1 {
		return field.ErrorList{field.Invalid(path, n, "must be greater than zero")}
	}
	return nil
}

// ValidateTolerations checks which taints are tolerated.
func ValidateTolerations(list []corev1.Toleration, path *field.Path) (errs field.ErrorList) {
	add := func(list ...*field.Error) { errs = append(errs, list...) }
	for i, t := range list {
		at := path.Index(i)
		if t.Key != "" {
			add(metavalidation.ValidateLabelName(t.Key, at.Child("key"))...)
		} else if t.Operator != corev1.TolerationOpExists {
			add(field.Invalid(at.Child("operator"), t.Operator,
				"operator must be Exists when `key` is empty, which means \"match all values and all keys\""))
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			add(field.Invalid(at.Child("effect"), t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
		}
		switch t.Operator {
		case corev1.TolerationOpEqual, "":
			add(ValidateLabelValue(t.Value, at.Child("operator"))...)
		case corev1.TolerationOpExists:
			if t.Value != "" {
				add(field.Invalid(at.Child("operator"), t.Value, "value must be empty when `operator` is 'Exists'"))
			}
		case corev1.TolerationOpLt, corev1.TolerationOpGt: // known, but for clusters with an alpha feature
			add(field.NotSupported(at.Child("operator"), t.Operator,
				[]corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists, corev1.TolerationOpLt, corev1.TolerationOpGt}))
		default:
			add(field.NotSupported(at.Child("operator"), t.Operator, []corev1.TolerationOperator{corev1.TolerationOpEqual,
				corev1.TolerationOpExists}))
		}
		if t.Effect != "" {
			add(ValidateTaintEffect(t.Effect, at.Child("effect"))...)
		}
	}
	return errs
}

// ValidateLabelValue checks a value and tells all that is wrong with it at once.
func ValidateLabelValue(v string, path *field.Path) field.ErrorList {
	if says := utilvalidation.IsValidLabelValue(v); len(says) > 0 {
		return field.ErrorList{field.Invalid(path, v, strings.Join(says, ";"))}
	}
	return nil
}

// ValidateTaintEffect checks what a taint does.
func ValidateTaintEffect(e corev1.TaintEffect, path *field.Path) field.ErrorList {
	return rule.ChosenListed(e, path, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)
}
