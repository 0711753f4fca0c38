package job

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestIndexes(t *testing.T) {
	for in, want := range map[string]string{"": "", "0": "0", "0-2,4": "0-2,4", "0,1": "0,1", "1-9": "1-7", "8": "", "x,3": "3"} {
		t.Run(in, func(t *testing.T) {
			if got := parseIndexes(in, 8).String(); got != want {
				t.Errorf("%q reads as %q, want %q", in, got, want)
			}
		})
	}
	l := parseIndexes("0-2,5", 10)
	for i, want := range map[int]string{3: "0-3,5", 4: "0-2,4,5", 7: "0-2,5,7", 1: "0-2,5"} {
		if got := l.add(i).String(); got != want {
			t.Errorf("with %d: %q, want %q", i, got, want)
		}
	}
	if got := l.add(3).add(4); got.String() != "0-5" || got.total() != 6 || !got.has(5) || got.has(6) ||
		got.common(parseIndexes("4-9", 10)) != 2 {
		t.Errorf("%v", got)
	}
}

func TestBackoff(t *testing.T) {
	now := time.Unix(10000, 0)
	pod := func(ph corev1.PodPhase, ago time.Duration) *corev1.Pod {
		return &corev1.Pod{Status: corev1.PodStatus{Phase: ph, ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(now.Add(-ago))}}}}}}
	}
	fail := func(ago time.Duration) *corev1.Pod { return pod(corev1.PodFailed, ago) }
	for _, tt := range []struct {
		name string
		pods []*corev1.Pod
		want time.Duration
	}{
		{"none", nil, 0},
		{"one", []*corev1.Pod{fail(time.Second)}, 9 * time.Second},
		{"long ago", []*corev1.Pod{fail(time.Minute)}, 0},
		{"three", []*corev1.Pod{fail(time.Minute), fail(30 * time.Second), fail(0)}, 40 * time.Second},
		{"a success between", []*corev1.Pod{fail(time.Minute), pod(corev1.PodSucceeded, 30*time.Second), fail(0)}, 10 * time.Second},
		{"bounded", []*corev1.Pod{fail(0), fail(0), fail(0), fail(0), fail(0), fail(0), fail(0), fail(0), fail(0)}, mostBackoff},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := backoff(tt.pods, 0, now); got != tt.want {
				t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
			}
		})
	}
}

func TestPlan(t *testing.T) {
	now := time.Unix(10000, 0)
	pod := func(text string) *corev1.Pod { // "index phase", + for one that is on its way out
		var index string
		var ph corev1.PodPhase
		if _, err := fmt.Sscan(text, &index, &ph); err != nil {
			t.Fatal(err)
		}
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: index, UID: types.UID(text), Annotations: map[string]string{indexKey: index[:1]},
			Finalizers: []string{batchv1.JobTrackingFinalizer}}, Status: corev1.PodStatus{Phase: ph}}
		if strings.HasSuffix(index, "+") {
			p.DeletionTimestamp = &metav1.Time{Time: now}
		}
		return p
	}
	perIndex := func(j *batchv1.Job) {
		j.Spec.BackoffLimitPerIndex, j.Spec.BackoffLimit = new(int32(3)), new(int32(1<<31-1))
	}
	failed := []batchv1.JobCondition{{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue, Reason: "DeadlineExceeded"}}
	for _, tt := range []struct {
		name            string
		edit            func(*batchv1.Job)
		pods            []string
		create          int
		remove, release string
		uncounted       int // that failed
	}{
		{"two of three", nil, []string{"0 Running", "1 Running"}, 1, "", "", 0},
		{"an index that is none any more goes", func(j *batchv1.Job) { j.Spec.Completions, j.Spec.Parallelism = new(int32(2)), new(int32(2)) },
			[]string{"2 Running", "0 Pending", "1 Pending"}, 0, "2", "", 0},
		{"an index that is taken goes", nil, []string{"0 Running", "1 Running", "1x Pending"}, 0, "1x", "", 0},
		{"less at a time", func(j *batchv1.Job) { j.Spec.Parallelism = new(int32(1)) }, []string{"0 Running", "1 Pending"}, 0, "1", "", 0},
		{"one success is enough, the rest runs on", func(j *batchv1.Job) {
			j.Spec.CompletionMode, j.Spec.Completions, j.Spec.Parallelism = nil, nil, new(int32(1))
		}, []string{"0 Succeeded", "1 Running", "2 Running"}, 0, "", "0", 0},
		{"a failed job takes all along", func(j *batchv1.Job) { j.Status.Conditions = failed }, []string{"0 Running", "1+ Running"}, 0,
			"0", "01+", 2},
		{"also those that are not replaced before they end", func(j *batchv1.Job) {
			j.Status.Conditions, j.Spec.PodReplacementPolicy = failed, new(batchv1.Failed)
		}, []string{"0 Running", "1+ Running"}, 0, "0", "01+", 2},
		{"a failure of an index is remembered until its successor is there", perIndex,
			[]string{"0 Failed", "1+ Running", "2 Running"}, 2, "", "", 0},
		{"and goes then", perIndex, []string{"0 Failed", "0x Pending", "1 Running", "2 Running"}, 0, "", "0", 1},
		{"also when the index has no hope", func(j *batchv1.Job) { perIndex(j); *j.Spec.BackoffLimitPerIndex = 0 },
			[]string{"0 Failed", "1 Running", "2 Running"}, 0, "", "0", 1},
		{"when the job ends", func(j *batchv1.Job) { perIndex(j); j.Status.Conditions = failed },
			[]string{"0 Failed", "1 Running"}, 0, "1", "01", 2},
		{"when the namespace goes", perIndex, []string{"0 Failed", "1 Running", "2 Running"}, 1, "", "0", 1},
		{"when the job is deleted", func(j *batchv1.Job) { perIndex(j); j.DeletionTimestamp = &metav1.Time{Time: now} },
			[]string{"0 Failed"}, 0, "", "0", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			mode := batchv1.IndexedCompletion
			j := &batchv1.Job{Spec: batchv1.JobSpec{CompletionMode: &mode, Completions: new(int32(3)), Parallelism: new(int32(3)),
				BackoffLimit: new(int32(6))}}
			if tt.edit != nil {
				tt.edit(j)
			}
			var list []*corev1.Pod
			for _, p := range tt.pods {
				list = append(list, pod(p))
			}
			w := observe(j, list, now)
			w.closing = strings.Contains(tt.name, "namespace")
			got := plan(w)
			names := func(list []*corev1.Pod) (s string) {
				slices.SortFunc(list, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
				for _, p := range list {
					s += p.Name
				}
				return s
			}
			if remove, release := names(got.remove), names(got.release); len(got.create) != tt.create || remove != tt.remove ||
				release != tt.release ||
				len(got.status.UncountedTerminatedPods.Failed) != tt.uncounted {
				t.Errorf("%s: create %d, remove %q, release %q, %d failed", tt.name, len(got.create), remove, release,
					len(got.status.UncountedTerminatedPods.Failed))
			}
		})
	}
}

// An index that waits after a failure keeps its place among those that run at once, and waits the longer the more often it failed, though
// its first pods are gone.
func TestIndexInItsPause(t *testing.T) {
	now := time.Unix(10000, 0)
	indexed := batchv1.IndexedCompletion
	j := &batchv1.Job{Spec: batchv1.JobSpec{Completions: new(int32(4)), Parallelism: new(int32(2)), CompletionMode: &indexed,
		BackoffLimitPerIndex: new(int32(5))}}
	of := func(index, phase string, before string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: index, UID: types.UID(index), CreationTimestamp: metav1.NewTime(now),
			Annotations: map[string]string{indexKey: index, failedKey: before}, Finalizers: []string{batchv1.JobTrackingFinalizer}},
			Status: corev1.PodStatus{Phase: corev1.PodPhase(phase)}}
	}
	got := plan(observe(j, []*corev1.Pod{of("0", "Failed", "2"), of("1", "Running", "0")}, now))
	if len(got.create) > 0 || got.again != 4*firstBackoff {
		t.Errorf("creates %v, looks again after %v", got.create, got.again)
	}
}

// The time of a job that has not begun runs from this pass on, and containers of pods on their way out count as restarted, too.
// A job of two billion indexes that waits after a failure does not look at each of them.
func TestHugeJobWaits(t *testing.T) {
	now := time.Unix(10000, 0)
	huge, indexed := int32(1<<31-1), batchv1.IndexedCompletion
	j := &batchv1.Job{Spec: batchv1.JobSpec{Completions: &huge, CompletionMode: &indexed}}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now), Annotations: map[string]string{indexKey: "0"}},
		Status: corev1.PodStatus{Phase: corev1.PodFailed}}
	if list, again := observe(j, []*corev1.Pod{p}, now).nextIndexes(1); len(list) > 0 || again != firstBackoff {
		t.Errorf("%v, again after %v", list, again)
	}
}

func TestLimitsThatAreReachedAtOnce(t *testing.T) {
	now := time.Unix(10000, 0)
	job := func(edit func(*batchv1.JobSpec)) *batchv1.Job {
		j := &batchv1.Job{Spec: batchv1.JobSpec{Completions: new(int32(1)), Parallelism: new(int32(1)), BackoffLimit: new(int32(2))}}
		edit(&j.Spec)
		return j
	}
	going := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: now}}, Status: corev1.PodStatus{
		Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{RestartCount: 2}}}}
	for want, w := range map[string]*world{
		batchv1.JobReasonDeadlineExceeded: observe(job(func(s *batchv1.JobSpec) { s.ActiveDeadlineSeconds = new(int64(0)) }), nil, now),
		batchv1.JobReasonBackoffLimitExceeded: observe(job(func(s *batchv1.JobSpec) {
			s.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
		}), []*corev1.Pod{going}, now),
	} {
		t.Run(want, func(t *testing.T) {
			got := plan(w)
			if c := find(got.status.Conditions, batchv1.JobFailureTarget); len(got.create) > 0 || c == nil || c.Reason != want {
				t.Errorf("%s: %d pods made, %v", want, len(got.create), got.status.Conditions)
			}
		})
	}
}
