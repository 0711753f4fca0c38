package batch

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/kinds/template"
	"github.com/kloop-dev/kloop/resource"
)

// validateJobUpdate refuses changes that the controller could not carry out on pods that exist.
func validateJobUpdate(j, old *batchv1.Job) (errs field.ErrorList) {
	n, o, spec := &j.Spec, &old.Spec, field.NewPath("spec")
	errs = append(errs, completionsUpdate(n, o, spec.Child("completions"))...)
	errs = append(errs, templateUpdate(n, old, spec.Child("template"))...)
	for _, f := range []struct {
		name string
		a, b any
	}{
		{"selector", n.Selector, o.Selector}, {"completionMode", n.CompletionMode, o.CompletionMode},
		{"podFailurePolicy", n.PodFailurePolicy, o.PodFailurePolicy},
		{"backoffLimitPerIndex", n.BackoffLimitPerIndex, o.BackoffLimitPerIndex},
		{"managedBy", n.ManagedBy, o.ManagedBy}, {"successPolicy", n.SuccessPolicy, o.SuccessPolicy},
	} {
		for _, e := range rule.Frozen(f.a, f.b, spec.Child(f.name)) {
			e.BadValue = rule.Internal(f.a)
			errs = append(errs, e)
		}
	}
	return errs
}

// completionsUpdate lets indexed jobs grow and shrink together with their parallelism.
func completionsUpdate(n, o *batchv1.JobSpec, path *field.Path) field.ErrorList {
	if resource.Same(n.Completions, o.Completions) {
		return nil
	}
	if value(n.CompletionMode) != batchv1.IndexedCompletion {
		return rule.Frozen(n.Completions, o.Completions, path)
	}
	if n.Completions != nil && (n.Parallelism == nil || *n.Completions != *n.Parallelism) {
		return field.ErrorList{field.Invalid(path, *n.Completions, "can only be modified in tandem with spec.parallelism")}
	}
	return nil
}

// templateUpdate lets scheduling directives and resources change while a suspended job has no pods of the old
// template: it never started, or is known to have stopped.
func templateUpdate(n *batchv1.JobSpec, old *batchv1.Job, path *field.Path) field.ErrorList {
	if st := &old.Status; !is(old.Spec.Suspend) || st.Active > 0 || st.StartTime != nil && !has(old, batchv1.JobSuspended) {
		return rule.Frozen(n.Template, old.Spec.Template, path)
	}
	was, t := *old.Spec.Template.DeepCopy(), n.Template // of its metadata anything may change
	was.Spec.NodeSelector, was.Spec.Tolerations = t.Spec.NodeSelector, t.Spec.Tolerations
	was.Spec.SchedulingGates = t.Spec.SchedulingGates
	if was.Spec.Affinity == nil {
		was.Spec.Affinity = &corev1.Affinity{}
	}
	if t.Spec.Affinity != nil {
		was.Spec.Affinity.NodeAffinity = t.Spec.Affinity.NodeAffinity
	} else {
		was.Spec.Affinity.NodeAffinity = nil
	}
	if *was.Spec.Affinity == (corev1.Affinity{}) {
		was.Spec.Affinity = t.Spec.Affinity
	}
	copyResources(was.Spec.Containers, t.Spec.Containers)
	copyResources(was.Spec.InitContainers, t.Spec.InitContainers)
	return rule.Frozen(t.Spec, was.Spec, path.Child("spec"))
}

func copyResources(to, from []corev1.Container) {
	for i := range min(len(to), len(from)) {
		if len(to) == len(from) && to[i].Name == from[i].Name {
			to[i].Resources = from[i].Resources
		}
	}
}

// warnJob names what is allowed but will not work well, again whenever the spec changes.
func warnJob(j, old *batchv1.Job) []string {
	switch {
	case old == nil:
		return warnJobSpec(j.Name, &j.Spec, field.NewPath("spec"))
	case resource.Same(j.Spec, old.Spec):
		return nil
	}
	return warnJobSpec("", &j.Spec, field.NewPath("spec"))
}

// warnJobSpec warns of jobs so large that completedIndexes could become longer than what is stored.
func warnJobSpec(name string, s *batchv1.JobSpec, path *field.Path) []string {
	warnings := template.Warnings(name, &s.Template, path.Child("template"))
	if value(s.CompletionMode) == batchv1.IndexedCompletion && value(s.Completions) > manyCompletions &&
		value(s.Parallelism) > maxParallelOfMany {
		warnings = append(warnings, "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher "+
			"than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail")
	}
	return warnings
}
