package causes

import (
	"cmp"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// jobs are the ways in which jobs do not complete.
func jobs() []converge.Situation {
	of := []resource.Kind{kinds.Jobs}
	return []converge.Situation{
		{Name: "JobGaveUp", Of: of, See: jobGaveUp},
		{Name: "JobManagedElsewhere", Of: of, See: jobManagedElsewhere},
		{Name: "JobPodsFail", Of: of, See: jobPodsFail},
		{Name: "JobPodsWait", Of: of, See: jobPodsWait},
		{Name: "JobStarts", Of: of, See: jobStarts},
	}
}

// jobGaveUp begins with FailureTarget, which stands while the last pods stop: Failed comes only when none is left (KEP 3939).
func jobGaveUp(l *converge.Look) *converge.Finding {
	j := l.Obj.(*batchv1.Job)
	for _, c := range j.Status.Conditions {
		if c.Type != batchv1.JobFailed && c.Type != batchv1.JobFailureTarget || c.Status != corev1.ConditionTrue {
			continue
		}
		f := &converge.Finding{Says: "gave up: " + cmp.Or(c.Message, c.Reason), Owner: converge.Person, State: converge.Failed,
			Error: general.TextOnly(c.Message),
			Next:  converge.PersonDoes("finds out why its pods fail and makes the job anew"),
			Advice: []string{"read the log of a pod that failed: kubectl logs -l batch.kubernetes.io/job-name=" + j.Name + " -n " +
				j.Namespace}}
		switch c.Reason {
		case batchv1.JobReasonBackoffLimitExceeded:
			f.Says = fmt.Sprintf("gave up after %s, which is more than its backoffLimit of %d", words.Count(int(j.Status.Failed),
				"failed pod"),
				ptr.Deref(j.Spec.BackoffLimit, 6))
		case batchv1.JobReasonDeadlineExceeded:
			f.Says = fmt.Sprintf("gave up: it was not done within its activeDeadlineSeconds of %d",
				ptr.Deref(j.Spec.ActiveDeadlineSeconds, 0))
			f.Next = converge.PersonDoes("gives it more time, or has it take less, and makes the job anew")
			if p, _ := general.FailedIn(l, j); p == nil { // it deleted those that still ran
				f.Advice = append(longer(l, j), "find out what takes so long; what it was told while it ran: kubectl get events -n "+j.Namespace)
			}
		case batchv1.JobReasonPodFailurePolicy:
			f.Says = strings.TrimSuffix("gave up, as its podFailurePolicy says: "+c.Message, ": ")
		case batchv1.JobReasonFailedIndexes:
			f.Says = fmt.Sprintf("gave up on the indexes %s, which failed more often than its backoffLimitPerIndex of %d",
				ptr.Deref(j.Status.FailedIndexes, ""), ptr.Deref(j.Spec.BackoffLimitPerIndex, 0))
		case batchv1.JobReasonMaxFailedIndexesExceeded:
			f.Says = fmt.Sprintf("gave up: the indexes %s failed, which is more than its maxFailedIndexes of %d",
				ptr.Deref(j.Status.FailedIndexes, ""), ptr.Deref(j.Spec.MaxFailedIndexes, 0))
		}
		adviseFailure(l, f, j)
		if k, _ := l.LastingTop(); k == kinds.Jobs && !strings.Contains(strings.Join(f.Advice, "\n"), " | kubectl replace --force ") {
			f.Also = []string{converge.Again + ": " + converge.Repeated(converge.RefTo(k, j))}
		}
		if left := stopping(l.World, j); c.Type == batchv1.JobFailureTarget && len(left) > 0 {
			f.State, f.Owner = converge.Waiting, "job"
			f.Says += "; pod/" + left[0].Name + general.AndMore(len(left)-1) + ", which it deleted, has not stopped yet"
			f.Next = converge.Does("job", "says that it failed when its pods have stopped")
		}
		return f
	}
	return nil
}

// stopping are the pods of a job that were deleted and are still there.
func stopping(w *converge.World, j *batchv1.Job) (list []*corev1.Pod) {
	for _, p := range resource.Owned(w.Read, kinds.Pods, j) {
		if p.DeletionTimestamp != nil {
			list = append(list, p)
		}
	}
	return list
}

// jobManagedElsewhere: its spec leaves it to a controller that is not ours.
func jobManagedElsewhere(l *converge.Look) *converge.Finding {
	j := l.Obj.(*batchv1.Job)
	who := ptr.Deref(j.Spec.ManagedBy, batchv1.JobControllerName)
	if who == batchv1.JobControllerName {
		return nil
	}
	f := &converge.Finding{Says: "is left to " + who, Owner: who, State: converge.Waiting,
		Waits: l.Field("spec.managedBy"),
		Next:  converge.Does(who, "makes its pods"), Advice: []string{"look at the log of " + who}}
	l.RunsAbroad(f, who)
	if l.Unwatched(l.Kind.Info().GR()) {
		f.Says, f.State = "is left to "+who+", and no controller outside watches jobs", converge.Missing
		f.Next, f.Advice = converge.Does(who, "makes its pods when it runs"),
			[]string{"install or start " + who, "or make the job anew without spec.managedBy: then kloop's own loop runs it"}
	}
	return f
}

// adviseFailure tells how a pod of a job failed last, and what that is known to need.
func adviseFailure(l *converge.Look, f *converge.Finding, j resource.Object) {
	if p, c := general.FailedIn(l, j); p != nil {
		says, logs := general.LastFailed(l, j)
		f.Says += "; " + says
		switch {
		case general.Died(c).Reason == "OOMKilled":
			more := moreMemory(&converge.Look{World: l.World, Kind: kinds.Pods, Obj: p}, p, c.Name)
			if !strings.Contains(more, ": ") {
				more += "; a job's template can't be changed, so make it anew: kubectl get " + l.Kind.Info().GR().String() + " " +
					converge.Called(l) + " -o yaml"
			}
			f.Advice = append([]string{more}, f.Advice...)
		case p.Annotations[batchv1.JobCompletionIndexAnnotation] != "":
			f.Advice = append([]string{"read the log of the pod of index " + p.Annotations[batchv1.JobCompletionIndexAnnotation] + ": " +
				logs}, f.Advice...)
		}
		advise(l, f, p, c.Name, general.Died(c))
	}
}

// jobPodsFail is a job that still tries. While as many pods as it may have are ready it makes progress, whatever failed before.
func jobPodsFail(l *converge.Look) *converge.Finding {
	j := l.Obj.(*batchv1.Job)
	if j.Status.Failed == 0 {
		return nil
	}
	limit := ptr.Deref(j.Spec.BackoffLimit, 6)
	f := &converge.Finding{Says: fmt.Sprintf("has had %s of the %d that it bears", words.Count(int(j.Status.Failed), "failed pod"), limit),
		State: converge.BackingOff, Next: converge.Does(l.Owner, "starts another pod after a pause that doubles from 10 s"),
		Advice: []string{"read the log of a pod that failed: kubectl logs -l batch.kubernetes.io/job-name=" + j.Name + " -n " +
			j.Namespace}}
	if r, ok := l.Record(l.Owner, l.Kind, j); ok {
		f.Next.At = converge.Stamp(r.Next)
	}
	if j.Status.Active > 0 && ptr.Deref(j.Status.Ready, 0) == j.Status.Active {
		f.State, f.Next = converge.Progressing, converge.Does(l.Owner, "waits for %s at work", words.Count(int(j.Status.Active), "pod"))
	}
	adviseFailure(l, f, j)
	return f
}

// jobPodsWait leaves the cause to the pods.
func jobPodsWait(l *converge.Look) *converge.Finding {
	bad := unwell(l)
	if len(bad) == 0 {
		return nil
	}
	return &converge.Finding{Says: "waits for " + words.Count(len(bad), "pod") + " to run", State: converge.Waiting,
		Waits: converge.On("Object", converge.RefTo(kinds.Pods, bad[0]), "status.phase"),
		Next:  converge.Does(l.Owner, "counts the pods that complete"),
		Below: converge.Refs(kinds.Pods, bad)}
}

func jobStarts(l *converge.Look) *converge.Finding {
	return &converge.Finding{Says: "is being worked on", State: converge.Progressing,
		Next: converge.Does(l.Owner, "makes the pods and counts those that complete")}
}

// longer advises to give a job ten times as long: where it is made by a cron job, there.
func longer(l *converge.Look, j *batchv1.Job) (advice []string) {
	const says = "if it needs longer, give it more time"
	more := ptr.Deref(j.Spec.ActiveDeadlineSeconds, 0) * 10
	if top, ok := changeable(l.World, l.Kind, j); ok && top.Kind == kinds.CronJobs {
		return []string{says + ": " + converge.Merged(top, more, "spec", "jobTemplate", "spec", "activeDeadlineSeconds")}
	}
	if k, _ := l.LastingTop(); k == kinds.Jobs {
		return []string{says + inCopy + converge.Anew(converge.RefTo(kinds.Jobs, j), converge.Put("/spec/activeDeadlineSeconds", more))}
	}
	return nil
}
