package batch

import (
	v1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/kinds/template"
)

// validateJobUpdate refuses changes that the controller could not carry out on pods that exist.
func validateJobUpdate(j, old *v1.Job) (errs field.ErrorList) {
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
		errs = append(errs, rule.Frozen(f.a, f.b, spec.Child(f.name))...)
	}
	return errs
}

// completionsUpdate lets indexed jobs grow and shrink together with their parallelism.
func completionsUpdate(n, o *v1.JobSpec, path *field.Path) field.ErrorList {
	if rule.Same(n.Completions, o.Completions) {
		return nil
	}
	elastic := value(n.CompletionMode) == v1.IndexedCompletion && n.Completions != nil && o.Completions != nil
	if !elastic {
		return rule.Frozen(n.Completions, o.Completions, path)
	}
	if n.Parallelism == nil || *n.Completions != *n.Parallelism {
		return field.ErrorList{field.Invalid(path, *n.Completions, "can only be modified in tandem with spec.parallelism")}
	}
	return nil
}

// templateUpdate lets the scheduling directives change while the job is suspended and has no pods yet.
func templateUpdate(n *v1.JobSpec, old *v1.Job, path *field.Path) field.ErrorList {
	was := old.Spec.Template
	suspended := is(old.Spec.Suspend) && old.Status.StartTime == nil
	if suspended {
		was = *was.DeepCopy()
		t := n.Template
		was.Annotations, was.Labels = t.Annotations, t.Labels
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
		if mutableResources(n, old) {
			copyResources(was.Spec.Containers, t.Spec.Containers)
			copyResources(was.Spec.InitContainers, t.Spec.InitContainers)
		}
	}
	return rule.Frozen(n.Template, was, path)
}

// mutableResources reports whether the requests of the template may change: never having started is enough.
func mutableResources(n *v1.JobSpec, old *v1.Job) bool {
	return is(n.Suspend) && len(n.Template.Spec.Containers) == len(old.Spec.Template.Spec.Containers)
}

func copyResources(to, from []corev1.Container) {
	for i := range min(len(to), len(from)) {
		to[i].Resources = from[i].Resources
	}
}

// warnJob names what is allowed but will not work well.
func warnJob(j, old *v1.Job) (warnings []string) {
	var was *corev1.PodTemplateSpec
	if old != nil {
		was = &old.Spec.Template
	}
	warnings = template.Warnings(j.Name, &j.Spec.Template, was, field.NewPath("spec", "template"))
	if old == nil && value(j.Spec.CompletionMode) == v1.IndexedCompletion && value(j.Spec.Completions) > manyCompletions &&
		value(j.Spec.Parallelism) > maxParallelOfMany {
		warnings = append(warnings, "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher "+
			"than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail")
	}
	return warnings
}

// validateJobStatus checks what only a broken controller would write.
func validateJobStatus(j, old *v1.Job) (errs field.ErrorList) {
	s, path := &j.Status, field.NewPath("status")
	for name, n := range map[string]int32{"active": s.Active, "succeeded": s.Succeeded, "failed": s.Failed} {
		errs = append(errs, rule.AtLeast(n, 0, path.Child(name))...)
	}
	errs = append(errs, rule.AtLeastPtr(s.Ready, 0, path.Child("ready"))...)
	errs = append(errs, rule.AtLeastPtr(s.Terminating, 0, path.Child("terminating"))...)
	errs = append(errs, uncounted(s.UncountedTerminatedPods, path.Child("uncountedTerminatedPods"))...)
	return append(errs, finished(j, old, path)...)
}

func uncounted(u *v1.UncountedTerminatedPods, path *field.Path) (errs field.ErrorList) {
	if u == nil {
		return nil
	}
	seen := map[string]bool{}
	for _, l := range []struct {
		name string
		uids []string
	}{{"succeeded", text(u.Succeeded)}, {"failed", text(u.Failed)}} {
		for i, uid := range l.uids {
			switch at := path.Child(l.name).Index(i); {
			case uid == "":
				errs = append(errs, field.Invalid(at, uid, "must not be empty"))
			case seen[uid]:
				errs = append(errs, field.Duplicate(at, uid))
			}
			seen[uid] = true
		}
	}
	return errs
}

func text[T ~string](list []T) (out []string) {
	for _, v := range list {
		out = append(out, string(v))
	}
	return out
}

// finished checks that a finished job stays finished and says when it did.
func finished(j, old *v1.Job, path *field.Path) (errs field.ErrorList) {
	s := &j.Status
	complete, failed := has(j, v1.JobComplete), has(j, v1.JobFailed)
	if complete && failed {
		errs = append(errs, field.Invalid(path.Child("conditions"), field.OmitValueType{}, "cannot set Complete=True and Failed=True conditions"))
	}
	if has(old, v1.JobComplete) && !complete || has(old, v1.JobFailed) && !failed {
		errs = append(errs, field.Invalid(path.Child("conditions"), field.OmitValueType{}, "cannot disable a finished condition"))
	}
	if s.CompletionTime != nil && !complete {
		errs = append(errs, field.Invalid(path.Child("completionTime"), s.CompletionTime, "cannot set completionTime when there is no Complete=True condition"))
	}
	if complete && s.CompletionTime == nil {
		errs = append(errs, field.Required(path.Child("completionTime"), "completionTime is required for Complete jobs"))
	}
	if s.StartTime != nil && s.CompletionTime != nil && s.CompletionTime.Before(s.StartTime) {
		errs = append(errs, field.Invalid(path.Child("completionTime"), s.CompletionTime, "completionTime cannot be set before startTime"))
	}
	if (complete || failed) && s.Active > 0 {
		errs = append(errs, field.Invalid(path.Child("active"), s.Active, "active>0 is invalid for finished job"))
	}
	return errs
}
