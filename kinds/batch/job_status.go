package batch

import (
	"cmp"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// validateJobStatus checks what only a broken controller would write. Any controller may be the job's: see
// spec.managedBy. Most rules look only at what changed, so a write may follow up on a changed spec.
func validateJobStatus(j, old *batchv1.Job) (errs field.ErrorList) {
	s, path := &j.Status, field.NewPath("status")
	errs = append(errs, rule.AtLeast(s.Active, 0, path.Child("active"))...)
	errs = append(errs, rule.AtLeast(s.Succeeded, 0, path.Child("succeeded"))...)
	errs = append(errs, rule.AtLeast(s.Failed, 0, path.Child("failed"))...)
	errs = append(errs, rule.AtLeastPtr(s.Ready, 0, path.Child("ready"))...)
	errs = append(errs, rule.AtLeastPtr(s.Terminating, 0, path.Child("terminating"))...)
	errs = append(errs, uncounted(s.UncountedTerminatedPods, path.Child("uncountedTerminatedPods"))...)
	errs = append(errs, jobConditions(j, old, path.Child("conditions"))...)
	errs = append(errs, jobTimes(j, old, path)...)
	errs = append(errs, jobCounts(j, old, path)...)
	return append(errs, jobIndexes(j, old, path)...)
}

// uncounted are pods that have ended and whose finalizer is not yet off (KEP-2307): each is counted once, so none may be listed twice.
func uncounted(u *batchv1.UncountedTerminatedPods, path *field.Path) (errs field.ErrorList) {
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

func finished(j *batchv1.Job) bool { return has(j, batchv1.JobComplete) || has(j, batchv1.JobFailed) }

// turned reports whether a condition came or went.
func turned(j, old *batchv1.Job, t batchv1.JobConditionType) bool { return has(j, t) != has(old, t) }

// contrary are the conditions that a job does not have at once; always are those looked at in every write.
var contrary = []struct {
	a, b   batchv1.JobConditionType
	always bool
}{
	{batchv1.JobComplete, batchv1.JobFailed, false}, {batchv1.JobComplete, batchv1.JobFailureTarget, false},
	{batchv1.JobSuccessCriteriaMet, batchv1.JobFailed, true}, {batchv1.JobSuccessCriteriaMet, batchv1.JobFailureTarget, true},
}

// announced: a job says that it is going to end, and once its pods are gone, that it did.
var announced = map[batchv1.JobConditionType]batchv1.JobConditionType{batchv1.JobFailed: batchv1.JobFailureTarget,
	batchv1.JobComplete: batchv1.JobSuccessCriteriaMet}

// jobConditions checks that conditions fit each other, and that those of the end stay.
func jobConditions(j, old *batchv1.Job, path *field.Path) (errs field.ErrorList) {
	bad := func(says string) { errs = append(errs, field.Invalid(path, field.OmitValueType{}, says)) }
	for _, c := range contrary {
		if (c.always || turned(j, old, c.a) || turned(j, old, c.b)) && has(j, c.a) && has(j, c.b) {
			bad("cannot set " + string(c.a) + "=True and " + string(c.b) + "=True conditions")
		}
	}
	for end, before := range announced {
		if (turned(j, old, end) || turned(j, old, before)) && has(j, end) && !has(j, before) {
			bad("cannot set " + string(end) + "=True condition without the " + string(before) + "=true condition")
		}
		for _, c := range []batchv1.JobConditionType{end, before} {
			if has(old, c) && !has(j, c) {
				bad("cannot disable the terminal " + string(c) + "=True condition")
			}
		}
	}
	if has(old, batchv1.JobComplete) && !has(old, batchv1.JobSuccessCriteriaMet) && has(j, batchv1.JobSuccessCriteriaMet) {
		bad("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")
	}
	slices.SortFunc(errs, func(a, b *field.Error) int { return cmp.Compare(a.Detail, b.Detail) })
	return errs
}

// jobTimes checks when a job started and completed.
func jobTimes(j, old *batchv1.Job, path *field.Path) (errs field.ErrorList) {
	s, o, complete := &j.Status, &old.Status, has(j, batchv1.JobComplete)
	begun, ended := !s.StartTime.Equal(o.StartTime), !s.CompletionTime.Equal(o.CompletionTime)
	start, end := path.Child("startTime"), path.Child("completionTime")
	bad := func(says string) { errs = append(errs, field.Invalid(end, s.CompletionTime, says)) }
	if turned(j, old, batchv1.JobComplete) || ended {
		switch {
		case s.CompletionTime != nil && !complete:
			bad("cannot set completionTime when there is no Complete=True condition")
		case s.CompletionTime == nil && complete:
			errs = append(errs, field.Required(end, "completionTime is required for Complete jobs"))
		}
	}
	if (begun || ended) && s.StartTime != nil && s.CompletionTime != nil && s.CompletionTime.Before(s.StartTime) {
		bad("completionTime cannot be set before startTime")
	}
	if ended && s.CompletionTime != nil && o.CompletionTime != nil {
		bad("completionTime cannot be mutated")
	}
	idle := is(j.Spec.Suspend) && j.Spec.Completions != nil && *j.Spec.Completions == 0
	if (finished(j) != finished(old) || begun) && !idle && s.StartTime == nil && finished(j) {
		errs = append(errs, field.Required(start, "startTime is required for finished job"))
	}
	resumed := has(old, batchv1.JobSuspended) && !has(j, batchv1.JobSuspended) // it starts anew then
	if begun && o.StartTime != nil && !is(j.Spec.Suspend) && !resumed {
		errs = append(errs, field.Required(start, "startTime cannot be removed for unsuspended job"))
	}
	return errs
}

// jobCounts checks that pods which ended stay counted, and that a finished job has none left.
func jobCounts(j, old *batchv1.Job, path *field.Path) (errs field.ErrorList) {
	s, o := &j.Status, &old.Status
	bad := func(name string, v any, says string) { errs = append(errs, field.Invalid(path.Child(name), v, says)) }
	elastic := value(j.Spec.CompletionMode) == batchv1.IndexedCompletion && resource.Same(j.Spec.Completions, j.Spec.Parallelism)
	if s.Failed < o.Failed {
		bad("failed", s.Failed, "cannot decrease the failed counter")
	}
	if s.Succeeded < o.Succeeded && !elastic {
		bad("succeeded", s.Succeeded, "cannot decrease the succeeded counter")
	}
	if ready := value(s.Ready); s.Ready != nil && (ready != value(o.Ready) || s.Active != o.Active) && ready > s.Active {
		bad("ready", ready, "cannot set more ready pods than active")
	}
	if !finished(j) {
		return errs
	}
	ends := !finished(old)
	if s.Active > 0 && (ends || s.Active != o.Active) {
		bad("active", s.Active, "active>0 is invalid for finished job")
	}
	if value(s.Terminating) > 0 && (ends || value(s.Terminating) != value(o.Terminating)) {
		bad("terminating", *s.Terminating, "terminating>0 is invalid for finished job")
	}
	if u := s.UncountedTerminatedPods; u != nil && len(u.Succeeded)+len(u.Failed) > 0 && (ends || !resource.Same(u,
		o.UncountedTerminatedPods)) {
		bad("uncountedTerminatedPods", u, "uncountedTerminatedPods needs to be empty for finished job")
	}
	return errs
}

// jobIndexes checks the lists of indexes that are done with.
func jobIndexes(j, old *batchv1.Job, path *field.Path) (errs field.ErrorList) {
	s, o, all := &j.Status, &old.Status, j.Spec.Completions
	done, lost := s.CompletedIndexes != o.CompletedIndexes, !resource.Same(s.FailedIndexes, o.FailedIndexes)
	bad := func(name string, v any, says string) { errs = append(errs, field.Invalid(path.Child(name), v, says)) }
	check := func(name, list string) {
		if _, err := parseIndexes(list, *all); err != nil {
			bad(name, list, "error parsing "+name+": "+err.Error())
		}
	}
	if done && all != nil {
		check("completedIndexes", s.CompletedIndexes)
	}
	if done && s.CompletedIndexes != "" && value(j.Spec.CompletionMode) != batchv1.IndexedCompletion {
		bad("completedIndexes", s.CompletedIndexes, "cannot set non-empty completedIndexes when non-indexed completion mode")
	}
	if s.FailedIndexes == nil {
		return errs
	}
	if lost && all != nil && j.Spec.BackoffLimitPerIndex != nil {
		check("failedIndexes", *s.FailedIndexes)
	}
	if lost && j.Spec.BackoffLimitPerIndex == nil {
		bad("failedIndexes", *s.FailedIndexes, "cannot set non-null failedIndexes when backoffLimitPerIndex is null")
	}
	if (done || lost) && all != nil && overlap(s.CompletedIndexes, *s.FailedIndexes, *all) {
		bad("failedIndexes", *s.FailedIndexes, "failedIndexes and completedIndexes overlap")
	}
	return errs
}
