package batch

import (
	"fmt"
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/kinds/template"
)

// The limits of indexed jobs.
const (
	maxParallelIndexed  = 100_000
	maxFailedIndexed    = 100_000
	manyCompletions     = 100_000 // from here on, failures must be limited
	maxParallelOfMany   = 10_000
	maxFailedOfMany     = 10_000
	longestManagedBy    = 63
	maxFailureRules     = 20
	maxConditionPattern = 20
	maxExitCodes        = 255
	longestIndexes      = 64 * 1024
)

// validateJob checks a change by the rules for new jobs, too, up to 1.36: there are two of every cause there.
func validateJob(on *features.Set, j, old *batchv1.Job) (errs field.ErrorList) {
	spec := field.NewPath("spec")
	var was *batchv1.JobSpec
	if old != nil {
		was = &old.Spec
	}
	whole := append(validateJobSpec(on, &j.Spec, was, spec), jobSelector(&j.Spec, was, spec)...)
	if old == nil || !on.AtLeast(37) {
		errs = slices.Concat(generatedSelector(j, old), whole, jobName(j))
	}
	if old == nil {
		return errs
	}
	if errs = slices.Concat(errs, whole, validateJobUpdate(j, old)); on.AtLeast(37) {
		errs = append(errs, jobName(j)...)
	}
	return errs
}

// jobName keeps the names of indexed jobs short enough for the host names of their pods.
func jobName(j *batchv1.Job) field.ErrorList {
	if value(j.Spec.CompletionMode) != batchv1.IndexedCompletion || value(j.Spec.Completions) < 1 {
		return nil
	}
	host := fmt.Sprintf("%s-%d", j.Name, *j.Spec.Completions-1)
	if len(validation.IsDNS1123Label(host)) == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), j.Name,
		"will not able to create pod with invalid DNS label: "+host)}
}

// jobSelector checks that the job would find its own pods.
func jobSelector(s, old *batchv1.JobSpec, spec *field.Path) (errs field.ErrorList) {
	if s.Selector == nil {
		errs = append(errs, field.Required(spec.Child("selector"), ""))
	} else {
		var was *metav1.LabelSelector
		if old != nil {
			was = old.Selector
		}
		errs = append(errs, rule.SelectorAsBefore(s.Selector, was, spec.Child("selector"))...)
	}
	if sel, err := metav1.LabelSelectorAsSelector(s.Selector); err == nil && !sel.Matches(labels.Set(s.Template.Labels)) {
		errs = append(errs, field.Invalid(spec.Child("template", "metadata", "labels"), s.Template.Labels,
			"`selector` does not match template `labels`"))
	}
	return errs
}

// generatedSelector checks that a job without a manual selector has the generated labels, and a selector that
// they satisfy. Jobs from before the labels had prefixes need none with.
func generatedSelector(j, old *batchv1.Job) (errs field.ErrorList) {
	if is(j.Spec.ManualSelector) || j.Spec.Selector == nil {
		return nil
	}
	meta, uid := field.NewPath("metadata"), string(j.UID)
	if uid == "" {
		errs = append(errs, field.Required(meta.Child("uid"), ""))
	}
	want := labels.Set{legacyUID: uid, legacyName: j.Name}
	if old == nil || hasPrefixed(old.Spec.Template.Labels) {
		want[batchv1.ControllerUidLabel], want[batchv1.JobNameLabel] = uid, j.Name
	}
	path, has := field.NewPath("spec"), j.Spec.Template.Labels
	for _, k := range slices.Sorted(maps.Keys(want)) {
		at := path.Child("template", "metadata", "labels").Key(k)
		switch v, ok := has[k]; {
		case !ok:
			errs = append(errs, field.Required(at, "must be '"+want[k]+"'"))
		case v != want[k]:
			errs = append(errs, field.Invalid(at, has, "must be '"+want[k]+"'"))
		}
	}
	if sel, err := metav1.LabelSelectorAsSelector(j.Spec.Selector); err == nil && !sel.Matches(want) {
		errs = append(errs, field.Invalid(path.Child("selector"), j.Spec.Selector, "`selector` not auto-generated"))
	}
	return errs
}

func hasPrefixed(l map[string]string) bool {
	_, name := l[batchv1.JobNameLabel]
	_, uid := l[batchv1.ControllerUidLabel]
	return name && uid
}

// validateJobSpec checks what jobs and the templates of cron jobs have in common.
func validateJobSpec(on *features.Set, s, old *batchv1.JobSpec, path *field.Path) (errs field.ErrorList) {
	errs = append(errs, rule.AtLeastPtr(s.Parallelism, 0, path.Child("parallelism"))...)
	errs = append(errs, rule.AtLeastPtr(s.Completions, 0, path.Child("completions"))...)
	errs = append(errs, rule.AtLeastPtr(s.ActiveDeadlineSeconds, 0, path.Child("activeDeadlineSeconds"))...)
	errs = append(errs, rule.AtLeastPtr(s.BackoffLimit, 0, path.Child("backoffLimit"))...)
	errs = append(errs, rule.AtLeastPtr(s.TTLSecondsAfterFinished, 0, path.Child("ttlSecondsAfterFinished"))...)
	errs = append(errs, rule.AtLeastPtr(s.BackoffLimitPerIndex, 0, path.Child("backoffLimitPerIndex"))...)
	errs = append(errs, rule.AtLeastPtr(s.MaxFailedIndexes, 0, path.Child("maxFailedIndexes"))...)
	if s.MaxFailedIndexes != nil && s.BackoffLimitPerIndex == nil {
		errs = append(errs, field.Required(path.Child("backoffLimitPerIndex"), "when maxFailedIndexes is specified"))
	}
	if m := s.ManagedBy; m != nil {
		errs = append(errs, validation.IsDomainPrefixedPath(path.Child("managedBy"), *m)...)
		if len(*m) > longestManagedBy {
			errs = append(errs, field.TooLong(path.Child("managedBy"), *m, longestManagedBy))
		}
	}
	if m := s.CompletionMode; m != nil {
		errs = append(errs, rule.Listed(*m, path.Child("completionMode"), batchv1.NonIndexedCompletion, batchv1.IndexedCompletion)...)
	}
	errs = append(errs, indexed(s, path)...)
	errs = append(errs, failurePolicy(s, path.Child("podFailurePolicy"))...)
	errs = append(errs, successPolicy(s, path.Child("successPolicy"))...)
	errs = append(errs, replacement(s, path.Child("podReplacementPolicy"))...)
	var was *corev1.PodTemplateSpec
	if old != nil {
		was = &old.Template
	}
	errs = append(errs, template.Validate(on, &s.Template, was, path.Child("template"))...)
	return append(errs, restart(s, path.Child("template", "spec", "restartPolicy"))...)
}

// restart is Never or OnFailure: pods of a job must be able to end. With a failure policy it is Never, or the node would restart
// containers before any rule had seen how they ended.
func restart(s *batchv1.JobSpec, path *field.Path) field.ErrorList {
	p := s.Template.Spec.RestartPolicy
	switch {
	case p == corev1.RestartPolicyAlways || p == "":
		return field.ErrorList{field.Required(path, `valid values: "OnFailure", "Never"`)}
	case p != corev1.RestartPolicyOnFailure && p != corev1.RestartPolicyNever:
		return rule.Listed(p, path, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	case s.PodFailurePolicy != nil && p != corev1.RestartPolicyNever:
		return field.ErrorList{field.Invalid(path, p, `only "Never" is supported when podFailurePolicy is specified`)}
	}
	return nil
}

// indexed bounds indexed jobs so that the lists of indexes in status stay small, and more tightly above 100,000 indexes (KEP-3850).
func indexed(s *batchv1.JobSpec, path *field.Path) (errs field.ErrorList) {
	if mode := value(s.CompletionMode); mode != batchv1.IndexedCompletion {
		if s.CompletionMode != nil && mode != batchv1.NonIndexedCompletion {
			return errs // an unknown mode has its own error
		}
		if s.BackoffLimitPerIndex != nil {
			errs = append(errs, field.Invalid(path.Child("backoffLimitPerIndex"), *s.BackoffLimitPerIndex, "requires indexed completion mode"))
		}
		if s.MaxFailedIndexes != nil {
			errs = append(errs, field.Invalid(path.Child("maxFailedIndexes"), *s.MaxFailedIndexes, "requires indexed completion mode"))
		}
		return errs
	}
	if s.Completions == nil {
		errs = append(errs, field.Required(path.Child("completions"), "when completion mode is Indexed"))
	}
	const mode, many = " when completion mode is Indexed", " when completions are above 100000 and used with backoff limit per index"
	errs = append(errs, atMost(s.Parallelism, maxParallelIndexed, mode, path.Child("parallelism"))...)
	errs = append(errs, atMost(s.MaxFailedIndexes, maxFailedIndexed, mode, path.Child("maxFailedIndexes"))...)
	if s.Completions != nil && s.MaxFailedIndexes != nil && *s.MaxFailedIndexes > *s.Completions {
		errs = append(errs, field.Invalid(path.Child("maxFailedIndexes"), *s.MaxFailedIndexes, "must be less than or equal to completions"))
	}
	if value(s.Completions) <= manyCompletions || s.BackoffLimitPerIndex == nil {
		return errs
	}
	if s.MaxFailedIndexes == nil {
		errs = append(errs, field.Required(path.Child("maxFailedIndexes"), "must be specified when completions is above 100000"))
	}
	errs = append(errs, atMost(s.Parallelism, maxParallelOfMany, many, path.Child("parallelism"))...)
	return append(errs, atMost(s.MaxFailedIndexes, maxFailedOfMany, many, path.Child("maxFailedIndexes"))...)
}

func atMost(n *int32, max int32, when string, path *field.Path) field.ErrorList {
	if n == nil || *n <= max {
		return nil
	}
	return field.ErrorList{field.Invalid(path, *n, fmt.Sprintf("must be less than or equal to %d%s", max, when))}
}

func replacement(s *batchv1.JobSpec, path *field.Path) field.ErrorList {
	if s.PodFailurePolicy != nil {
		return rule.AmongPtr(s.PodReplacementPolicy, path, batchv1.Failed)
	}
	return rule.AmongPtr(s.PodReplacementPolicy, path, batchv1.Failed, batchv1.TerminatingOrFailed)
}
