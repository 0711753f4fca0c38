package job

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/controllers/internal/pods"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// A todo is one pass's difference between wish and world.
type todo struct {
	create  []start
	remove  []*corev1.Pod
	uncount bool          // those removed are not wanted any more, and count as nothing
	release []*corev1.Pod // after the status is stored
	status  batchv1.JobStatus
	again   time.Duration
	doing   string // what the pass does, as it is counted
}

// burst bounds how many pods one pass starts.
const burst = 500

// plan is pure: same world, same answer.
func plan(w *world) (t todo) {
	j := w.job
	if ended(j.Status.Conditions) {
		t.status, t.release = j.Status, w.ended
		return t
	}
	t.status = *j.Status.DeepCopy()
	w.count()
	goal := w.verdict()
	if goal != nil {
		w.letGo(goal.Type == batchv1.JobFailureTarget)
	}
	t.release = w.release
	active := len(w.active)
	switch {
	case goal != nil || suspended(j):
		t.remove, t.uncount = w.active, goal == nil || goal.Type == batchv1.JobSuccessCriteriaMet // not wanted any more
		active = 0
	case j.DeletionTimestamp == nil:
		active = w.manage(&t)
	}
	switch t.doing = tracking; {
	case goal != nil || j.DeletionTimestamp != nil:
		t.doing = reconciling
	case len(t.create) > 0:
		t.doing = podsCreated
	case len(t.remove) > 0:
		t.doing = podsDeleted
	}
	w.suspend(&t.status, goal != nil)
	w.fill(&t.status, active, len(t.remove))
	if goal != nil && find(t.status.Conditions, goal.Type) == nil {
		t.status.Conditions = append(t.status.Conditions, *goal)
	}
	if goal != nil && w.atRest() && len(t.remove) == 0 {
		finish(&t.status, goal, w.now)
	}
	t.again = soonest(t.again, w.deadline())
	if w.more {
		t.again = loop.Now
	}
	return t
}

// atRest says that no pod has to be counted or waited for any more.
func (w *world) atRest() bool {
	return w.terminating == 0 && len(w.ended) == 0 && len(w.uncounted.Succeeded)+len(w.uncounted.Failed) == 0
}

// verdict is the condition that decides how the job ends, nil while that is open.
func (w *world) verdict() *batchv1.JobCondition {
	for _, t := range []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet} {
		if c := find(w.job.Status.Conditions, t); c != nil && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	failure := func(reason, text string) *batchv1.JobCondition {
		return w.condition(batchv1.JobFailureTarget, reason, text)
	}
	success := func(reason, text string) *batchv1.JobCondition {
		return w.condition(batchv1.JobSuccessCriteriaMet, reason, text)
	}
	s := &w.job.Spec
	switch {
	case w.failNow != "":
		return failure(w.policy, w.failNow)
	case s.BackoffLimit != nil && (w.failed > int(*s.BackoffLimit) || w.restartsTooOften()):
		return failure(batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit")
	case w.overdue() == 0:
		return failure(batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline")
	case s.MaxFailedIndexes != nil && w.hopeless.total() > int(*s.MaxFailedIndexes):
		return failure(batchv1.JobReasonMaxFailedIndexesExceeded, "Job has exceeded the specified maximal number of failed indexes")
	}
	why, met := enough(w.job, w.done, w.completions)
	switch {
	case w.indexed && w.hopeless.total() > 0 && w.succeeded+w.hopeless.total() >= w.completions:
		return failure(batchv1.JobReasonFailedIndexes, "Job has failed indexes")
	case w.indexed && met:
		return success(batchv1.JobReasonSuccessPolicy, why)
	case w.completions >= 0 && w.succeeded >= w.completions, w.completions < 0 && w.succeeded > 0 && len(w.active) == 0:
		return success(batchv1.JobReasonCompletionsReached, "Reached expected number of succeeded pods")
	}
	return nil
}

// restartsTooOften judges jobs whose containers are restarted in their pods.
func (w *world) restartsTooOften() bool {
	if w.job.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
		return false
	}
	n := int32(0)
	for _, p := range w.pods { // those on their way out, too
		if core.Terminal(p) {
			continue
		}
		for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			n += s.RestartCount
		}
	}
	limit := *w.job.Spec.BackoffLimit
	return n > 0 && n >= limit
}

// overdue is the time for which the job may still be active: 0 when its time is up, -1 when it has no deadline.
func (w *world) overdue() time.Duration {
	s := &w.job.Spec
	if s.ActiveDeadlineSeconds == nil || suspended(w.job) {
		return -1
	}
	start := w.now // this pass writes it
	if at := w.job.Status.StartTime; at != nil {
		start = at.Time
	}
	return max(0, start.Add(resource.Seconds(*s.ActiveDeadlineSeconds)).Sub(w.now))
}

// deadline is the time to look again because the job's time will be up then.
func (w *world) deadline() time.Duration {
	if d := w.overdue(); d > 0 {
		return d
	}
	return 0
}

// manage starts and stops pods; it returns how many are active then.
func (w *world) manage(t *todo) int {
	want := w.wanted()
	if list := w.unwanted(len(w.active) - want); len(list) > 0 {
		t.remove, t.uncount = list, true
		return len(w.active) - len(list)
	}
	n := want - len(w.active)
	if onlyFailed(w.job) {
		n -= w.terminating
	}
	n = min(n, burst)
	if n <= 0 {
		return len(w.active)
	}
	if w.indexed {
		t.create, t.again = w.nextIndexes(n)
	} else if t.again = backoff(w.pods, 0, w.now); t.again == 0 {
		t.create = slices.Repeat([]start{{index: -1}}, n)
	}
	if n == burst && t.again == 0 {
		t.again = loop.Now
	}
	return len(w.active) + len(t.create)
}

// wanted is the number of pods that should be active.
func (w *world) wanted() int {
	parallel := 1
	if w.job.Spec.Parallelism != nil {
		parallel = int(*w.job.Spec.Parallelism)
	}
	switch {
	case w.completions >= 0:
		return max(0, min(parallel, w.completions-w.succeeded-w.hopeless.total()))
	case w.succeeded > 0: // one has succeeded: no new ones, those that run may end
		return len(w.active)
	}
	return parallel
}

// unwanted are pods to stop: those whose index is not one of the job's or is taken, and of the others as many as it needs
// to be rid of n.
func (w *world) unwanted(n int) (list []*corev1.Pod) {
	rest := slices.Clone(w.active)
	pods.CheapestFirst(rest, nil, w.now)
	if w.indexed {
		taken := map[int]bool{}
		for _, p := range slices.Backward(rest) { // the dearest has the index
			i := indexOf(p, w.completions)
			if i < 0 || taken[i] {
				list = append(list, p)
			}
			taken[i] = true
		}
		rest = slices.DeleteFunc(rest, func(p *corev1.Pod) bool { return slices.Contains(list, p) })
	}
	return append(list, rest[:min(max(0, n-len(list)), len(rest))]...)
}

// nextIndexes picks the lowest indexes that have neither ended nor a pod. One that waits after a failure keeps its place: no later one
// takes it meanwhile.
func (w *world) nextIndexes(n int) (list []start, again time.Duration) {
	busy, of := map[int]bool{}, map[int][]*corev1.Pod{}
	for _, p := range w.pods {
		i := indexOf(p, w.completions)
		switch {
		case i < 0:
		case !core.Terminal(p) && (p.DeletionTimestamp == nil || onlyFailed(w.job)):
			busy[i] = true
		default:
			of[i] = append(of[i], p)
		}
	}
	whole, alone := backoff(w.pods, 0, w.now), w.job.Spec.BackoffLimitPerIndex != nil
	if whole > 0 && !alone {
		return nil, whole // there may be two billion indexes to wait for
	}
	for i := 0; i < w.completions && n > 0; i++ {
		if busy[i] || w.done.has(i) || w.hopeless.has(i) {
			continue
		}
		n--
		next := w.startOf(i, of[i])
		if wait := backoff(of[i], next.failed+next.ignored, w.now); alone && wait > 0 {
			again = soonest(again, wait)
			continue
		}
		list = append(list, next)
	}
	return list, again
}

// startOf is the start of the next pod of an index, which inherits the count of its predecessors' failures.
func (w *world) startOf(i int, before []*corev1.Pod) start {
	s := start{index: i}
	for _, p := range before {
		failed, ignored := count(p, failedKey), count(p, ignoredKey)
		if action, _ := judge(w.job, p); action == batchv1.PodFailurePolicyActionIgnore {
			ignored++
		} else {
			failed++
		}
		if failed+ignored > s.failed+s.ignored {
			s.failed, s.ignored = failed, ignored
		}
	}
	return s
}

const (
	firstBackoff = 10 * time.Second
	mostBackoff  = 10 * time.Minute
)

// backoff is the time to wait before the next start: 10 s after a failure, twice that after the next in a row. Of failures, there were at
// least as many as known: pods may be gone.
func backoff(list []*corev1.Pod, known int, now time.Time) time.Duration {
	var success, failure time.Time
	for _, p := range list {
		if at := endedAt(p); p.Status.Phase == corev1.PodSucceeded && at.After(success) {
			success = at
		}
	}
	n := 0
	for _, p := range list {
		if at := endedAt(p); p.Status.Phase == corev1.PodFailed && at.After(success) {
			n++
			if at.After(failure) {
				failure = at
			}
		}
	}
	if n == 0 {
		return 0
	}
	pause := min(firstBackoff<<min(max(n, known)-1, 10), mostBackoff)
	return max(0, failure.Add(pause).Sub(now))
}

// endedAt is the time at which the pod's last container ended, as far as one can tell.
func endedAt(p *corev1.Pod) (at time.Time) {
	for _, s := range slices.Concat(p.Status.ContainerStatuses, p.Status.InitContainerStatuses) {
		if t := s.State.Terminated; t != nil && t.FinishedAt.After(at) {
			at = t.FinishedAt.Time
		}
	}
	if at.IsZero() {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady {
				at = c.LastTransitionTime.Time
			}
		}
	}
	if at.IsZero() {
		at = p.CreationTimestamp.Time
	}
	return at
}

func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

func (w *world) condition(t batchv1.JobConditionType, reason, text string) *batchv1.JobCondition {
	now := metav1.NewTime(w.now)
	return &batchv1.JobCondition{Type: t, Status: corev1.ConditionTrue, Reason: reason, Message: text, LastProbeTime: now,
		LastTransitionTime: now}
}

func suspended(j *batchv1.Job) bool { return j.Spec.Suspend != nil && *j.Spec.Suspend }
