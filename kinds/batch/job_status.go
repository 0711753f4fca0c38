package batch

import (
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
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
	rules := jobStatus{j: j, old: old, path: path, errs: errs}
	rules.completion()
	rules.end()
	rules.indexes()
	rules.pods()
	rules.changes()
	return rules.errs
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

// A jobStatus gathers what is wrong with a status, in the order in which Kubernetes says it.
type jobStatus struct {
	j, old *batchv1.Job
	path   *field.Path
	errs   field.ErrorList
}

func (r *jobStatus) bad(name string, value any, says string) {
	r.errs = append(r.errs, field.Invalid(r.path.Child(name), value, says))
}

func (r *jobStatus) condition(says string) { r.bad("conditions", field.OmitValueType{}, says) }

func (r *jobStatus) required(name, says string) {
	r.errs = append(r.errs, field.Required(r.path.Child(name), says))
}

func (r *jobStatus) turned(t batchv1.JobConditionType) bool { return has(r.j, t) != has(r.old, t) }

// contrary refuses conditions that a job does not have at once.
func (r *jobStatus) contrary(a, b batchv1.JobConditionType) {
	if has(r.j, a) && has(r.j, b) {
		r.condition("cannot set " + string(a) + "=True and " + string(b) + "=true conditions")
	}
}

// announced: a job says that it is going to end, and once its pods are gone, that it did.
func (r *jobStatus) announced(end, before batchv1.JobConditionType) {
	if (r.turned(end) || r.turned(before)) && has(r.j, end) && !has(r.j, before) {
		r.condition("cannot set " + string(end) + "=True condition without the " + string(before) + "=true condition")
	}
}

// begun and ended report whether the times changed.
func (r *jobStatus) begun() bool { return !r.j.Status.StartTime.Equal(r.old.Status.StartTime) }
func (r *jobStatus) ended() bool {
	return !r.j.Status.CompletionTime.Equal(r.old.Status.CompletionTime)
}

// completion checks the conditions of the end, and the time of it.
func (r *jobStatus) completion() {
	s, complete := &r.j.Status, has(r.j, batchv1.JobComplete)
	for _, other := range []batchv1.JobConditionType{batchv1.JobFailed, batchv1.JobFailureTarget} {
		if r.turned(batchv1.JobComplete) || r.turned(other) {
			r.contrary(batchv1.JobComplete, other)
		}
	}
	if r.turned(batchv1.JobComplete) || r.ended() {
		switch {
		case s.CompletionTime != nil && !complete:
			r.bad("completionTime", s.CompletionTime, "cannot set completionTime when there is no Complete=True condition")
		case s.CompletionTime == nil && complete:
			r.required("completionTime", "completionTime is required for Complete jobs")
		}
	}
	if (r.begun() || r.ended()) && s.StartTime != nil && s.CompletionTime != nil && s.CompletionTime.Before(s.StartTime) {
		r.bad("completionTime", s.CompletionTime, "must be equal to or after `startTime`")
	}
	r.announced(batchv1.JobFailed, batchv1.JobFailureTarget)
	r.announced(batchv1.JobComplete, batchv1.JobSuccessCriteriaMet)
}

// end checks that a finished job was begun, and has nothing left.
func (r *jobStatus) end() {
	s, o := &r.j.Status, &r.old.Status
	if !finished(r.j) {
		return
	}
	ends := !finished(r.old)
	if s.Active > 0 && (ends || s.Active != o.Active) {
		r.bad("active", s.Active, "active>0 is invalid for finished job")
	}
	idle := is(r.j.Spec.Suspend) && r.j.Spec.Completions != nil && *r.j.Spec.Completions == 0
	if (ends || r.begun()) && !idle && s.StartTime == nil {
		r.required("startTime", "startTime is required for finished job")
	}
	if u := s.UncountedTerminatedPods; u != nil && len(u.Succeeded)+len(u.Failed) > 0 && (ends || !resource.Same(u,
		o.UncountedTerminatedPods)) {
		// Kubernetes shows its own form of it, whose fields have no names of JSON's.
		r.bad("uncountedTerminatedPods", struct{ Succeeded, Failed []types.UID }{u.Succeeded, u.Failed}, "must be empty for finished job")
	}
}

// pods checks the counts of pods that are there.
func (r *jobStatus) pods() {
	s, o := &r.j.Status, &r.old.Status
	if t := value(s.Terminating); t > 0 && finished(r.j) && (!finished(r.old) || t != value(o.Terminating)) {
		r.bad("terminating", t, "terminating>0 is invalid for finished job")
	}
	if ready := value(s.Ready); s.Ready != nil && (ready != value(o.Ready) || s.Active != o.Active) && ready > s.Active {
		r.bad("ready", ready, "cannot set more ready pods than active")
	}
	r.contrary(batchv1.JobSuccessCriteriaMet, batchv1.JobFailed)
	r.contrary(batchv1.JobSuccessCriteriaMet, batchv1.JobFailureTarget)
}

// changes checks that what was said of the end stays, and that pods which ended stay counted.
func (r *jobStatus) changes() {
	j, old, s, o := r.j, r.old, &r.j.Status, &r.old.Status
	gone := func(t batchv1.JobConditionType) bool { return has(old, t) && !has(j, t) }
	for _, t := range []batchv1.JobConditionType{batchv1.JobFailed, batchv1.JobComplete, batchv1.JobFailureTarget} {
		if gone(t) {
			r.condition("cannot disable the terminal " + string(t) + "=True condition")
		}
	}
	if s.Failed < o.Failed {
		r.bad("failed", s.Failed, "cannot decrease the failed counter")
	}
	elastic := value(j.Spec.CompletionMode) == batchv1.IndexedCompletion && resource.Same(j.Spec.Completions, j.Spec.Parallelism)
	if s.Succeeded < o.Succeeded && !elastic {
		r.bad("succeeded", s.Succeeded, "cannot decrease the succeeded counter")
	}
	if r.ended() && s.CompletionTime != nil && o.CompletionTime != nil {
		r.bad("completionTime", s.CompletionTime, "field is immutable")
	}
	if r.begun() && o.StartTime != nil && !is(j.Spec.Suspend) && !gone(batchv1.JobSuspended) { // it starts anew when it is resumed
		r.bad("startTime", s.StartTime, "field is immutable for unsuspended job once set")
	}
	if has(old, batchv1.JobComplete) && !has(old, batchv1.JobSuccessCriteriaMet) && has(j, batchv1.JobSuccessCriteriaMet) {
		r.condition("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")
	}
	if gone(batchv1.JobSuccessCriteriaMet) {
		r.condition("cannot disable the SuccessCriteriaMet=True condition")
	}
}

// indexes checks the lists of indexes that are done with.
func (r *jobStatus) indexes() {
	j, s, o, all, bad := r.j, &r.j.Status, &r.old.Status, r.j.Spec.Completions, r.bad
	done, lost := s.CompletedIndexes != o.CompletedIndexes, !resource.Same(s.FailedIndexes, o.FailedIndexes)
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
		return
	}
	if lost && all != nil && j.Spec.BackoffLimitPerIndex != nil {
		check("failedIndexes", *s.FailedIndexes)
	}
	if lost && j.Spec.BackoffLimitPerIndex == nil {
		bad("failedIndexes", *s.FailedIndexes, "cannot set non-null failedIndexes when backoffLimitPerIndex is null")
	}
	if (done || lost) && all != nil {
		if at, both := overlap(s.CompletedIndexes, *s.FailedIndexes, *all); both {
			bad("failedIndexes", *s.FailedIndexes, "failedIndexes and completedIndexes overlap at index: "+strconv.Itoa(int(at)))
		}
	}
}
