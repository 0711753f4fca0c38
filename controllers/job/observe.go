package job

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/controllers/internal/pods"
	"github.com/kloop-dev/kloop/kinds/core"
)

// mostUncounted bounds how many pods stand in the status between the two writes that count them.
const mostUncounted = 500

// A world holds the facts that one pass over a job knows.
type world struct {
	job         *batchv1.Job
	now         time.Time
	closing     bool // its namespace is on its way out: no pods can be made
	indexed     bool
	completions int // -1: any pod's success completes the job
	pods        []*corev1.Pod

	active      []*corev1.Pod
	live        map[int]bool // indexes that have an active pod
	ready       int
	terminating int
	ended       []*corev1.Pod // tracked, and to be counted unless they are

	uncounted       batchv1.UncountedTerminatedPods // those still tracked
	succeeded       int                             // all that is counted, or stands in uncounted
	failed          int
	done, hopeless  indexes
	counted         int // already in status.succeeded and status.failed; see observe
	countedFailed   int
	release         []*corev1.Pod
	delayed         []*corev1.Pod // failed pods that keep the count of their index's failures until their successor has it
	more            bool          // pods had to be left for the next pass
	failNow, policy string        // message and reason of a failure that ends the job
}

// observe sorts the job's pods and adds up what they mean. It first moves what the last pass left in uncounted to the counts.
func observe(j *batchv1.Job, owned []*corev1.Pod, now time.Time) *world {
	w := &world{job: j, now: now, completions: -1, pods: owned, live: map[int]bool{},
		indexed: j.Spec.CompletionMode != nil && *j.Spec.CompletionMode == batchv1.IndexedCompletion}
	if j.Spec.Completions != nil {
		w.completions = int(*j.Spec.Completions)
	}
	if w.indexed {
		w.done = parseIndexes(j.Status.CompletedIndexes, w.completions)
		if j.Status.FailedIndexes != nil {
			w.hopeless = parseIndexes(*j.Status.FailedIndexes, w.completions)
		}
	}
	still := map[types.UID]bool{}
	for _, p := range owned {
		if tracked(p) {
			still[p.UID] = true
		}
		w.sort(p)
	}
	w.counted, w.countedFailed = int(j.Status.Succeeded), int(j.Status.Failed)
	if u := j.Status.UncountedTerminatedPods; u != nil {
		settle := func(list []types.UID, n *int) (rest []types.UID) {
			for _, uid := range list {
				if still[uid] {
					rest = append(rest, uid)
				} else {
					*n++
				}
			}
			return rest
		}
		w.uncounted.Succeeded = settle(u.Succeeded, &w.counted)
		w.uncounted.Failed = settle(u.Failed, &w.countedFailed)
	}
	return w
}

// sort puts the pod where it belongs.
func (w *world) sort(p *corev1.Pod) {
	switch {
	case core.Terminal(p):
	case p.DeletionTimestamp != nil:
		w.terminating++
	default:
		w.active = append(w.active, p)
		if w.indexed {
			w.live[indexOf(p, w.completions)] = true
		}
		if pods.Ready(p) {
			w.ready++
		}
	}
	switch {
	case !tracked(p):
	case core.Terminal(p) || p.DeletionTimestamp != nil && !onlyFailed(w.job):
		w.ended = append(w.ended, p)
	case w.job.DeletionTimestamp != nil: // it goes on as somebody else's: it has not ended, and nobody counts it
		w.release = append(w.release, p)
	}
}

// count adds the ended pods to the uncounted ones and to the indexes, by the rules of the failure policy. A pod is released
// once the status that counts it is stored.
func (w *world) count() {
	for _, p := range w.ended {
		switch u := &w.uncounted; {
		case slices.Contains(u.Succeeded, p.UID) || slices.Contains(u.Failed, p.UID):
			w.release = append(w.release, p)
		case len(u.Succeeded)+len(u.Failed) >= mostUncounted:
			w.more = true
		case p.Status.Phase == corev1.PodSucceeded && w.indexed:
			if i := indexOf(p, w.completions); i >= 0 {
				w.done = w.done.add(i)
			}
			w.release = append(w.release, p)
		case p.Status.Phase == corev1.PodSucceeded:
			u.Succeeded = append(u.Succeeded, p.UID)
			w.release = append(w.release, p)
		default:
			w.sortFailed(p)
		}
	}
	w.succeeded = w.counted + len(w.uncounted.Succeeded)
	if w.indexed {
		w.succeeded = w.done.total()
	}
	w.failed = w.countedFailed + len(w.uncounted.Failed)
	for _, p := range w.delayed {
		if action, _ := judge(w.job, p); action != batchv1.PodFailurePolicyActionIgnore {
			w.failed++
		}
	}
}

// letGo handles the pods that have not ended when it is decided how the job ends: nobody waits for them, and if
// it has failed, so have they.
func (w *world) letGo(failed bool) {
	for _, p := range w.delayed {
		if len(w.uncounted.Succeeded)+len(w.uncounted.Failed) >= mostUncounted {
			w.more = true
			break
		}
		w.countFailed(p)
	}
	for _, p := range w.pods {
		switch {
		case !tracked(p) || slices.Contains(w.release, p) || slices.Contains(w.ended, p):
			continue
		case len(w.uncounted.Succeeded)+len(w.uncounted.Failed) >= mostUncounted:
			w.more = true
			continue
		}
		w.release = append(w.release, p)
		action, _ := judge(w.job, p)
		if failed && action != batchv1.PodFailurePolicyActionIgnore && !slices.Contains(w.uncounted.Failed, p.UID) &&
			(!w.indexed || indexOf(p, w.completions) >= 0) {
			w.uncounted.Failed = append(w.uncounted.Failed, p.UID)
		}
	}
	w.failed = w.countedFailed + len(w.uncounted.Failed)
}

// sortFailed judges a failed pod, and counts it unless its successor is still to come.
func (w *world) sortFailed(p *corev1.Pod) {
	action, why := judge(w.job, p)
	if action == batchv1.PodFailurePolicyActionFailJob {
		w.failNow, w.policy = why, batchv1.JobReasonPodFailurePolicy
	}
	i, limit := indexOf(p, w.completions), w.job.Spec.BackoffLimitPerIndex
	if w.indexed && limit != nil && action != batchv1.PodFailurePolicyActionIgnore && i >= 0 && !w.done.has(i) &&
		(action == batchv1.PodFailurePolicyActionFailIndex || count(p, failedKey) >= int(*limit)) {
		w.hopeless = w.hopeless.add(i)
	}
	if w.awaited(p, i) {
		w.delayed = append(w.delayed, p)
		return
	}
	w.countFailed(p)
}

// awaited says that a pod is the last that knows how often its index has failed: were it gone before its successor is made, that one
// would begin at zero (KEP-3850).
func (w *world) awaited(p *corev1.Pod, i int) bool {
	if w.closing || w.job.DeletionTimestamp != nil || w.job.Spec.BackoffLimitPerIndex == nil || !w.indexed {
		return false
	}
	return i >= 0 && !w.done.has(i) && !w.hopeless.has(i) && !w.live[i]
}

func (w *world) countFailed(p *corev1.Pod) {
	w.release = append(w.release, p)
	if action, _ := judge(w.job, p); action != batchv1.PodFailurePolicyActionIgnore {
		w.uncounted.Failed = append(w.uncounted.Failed, p.UID)
	}
}

// onlyFailed says that a pod on its way out is not replaced before it has ended.
func onlyFailed(j *batchv1.Job) bool {
	return j.Spec.PodReplacementPolicy != nil && *j.Spec.PodReplacementPolicy == batchv1.Failed
}
