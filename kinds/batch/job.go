package batch

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kloop-dev/kloop/kinds/cell"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/kinds/template"
	"github.com/kloop-dev/kloop/resource"
)

// Jobs declares the kind.
var Jobs = &resource.Def[*batchv1.Job]{
	GVK: gvk("Job"), Plural: "jobs", Categories: all, Namespaced: true, Generation: true, Status: true,
	Quirks: resource.Quirks{MetaUpdateOnly37: true, MetaNewFirst: true,
		Unselectable: "field label %[1]q not supported for Job",
		Orphaned: "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to " +
			"remove them " +
			"or set propagationPolicy=Orphan to suppress this warning"},
	OrphanByDefault: true, // of deletes through batch/v1, for the sake of old clients
	Default:         defaultJob, Prepare: resource.Serving(prepareJob), PrepareStatus: resource.Serving(labelsOfTemplate),
	Gated:          template.Gated(func(j *batchv1.Job) *corev1.PodTemplateSpec { return &j.Spec.Template }, resource.Serving(validateJob)),
	ValidateStatus: resource.Serving(validateJobStatus), Warn: resource.Serving(warnJob),
	Columns: append([]resource.Column[*batchv1.Job]{
		resource.Col("Status", "string", func(j *batchv1.Job) any { return jobState(j) }),
		resource.Col("Completions", "string", func(j *batchv1.Job) any { return completions(j) }),
		resource.Col("Duration", "string", func(j *batchv1.Job) any { return cell.Took(j.Status.StartTime, j.Status.CompletionTime) }),
		resource.Age[*batchv1.Job](),
	}, append(cell.Pods(func(j *batchv1.Job) *corev1.PodTemplateSpec { return &j.Spec.Template }),
		cell.Selecting(func(j *batchv1.Job) *metav1.LabelSelector { return j.Spec.Selector }))...),
	Select: []resource.Field[*batchv1.Job]{
		{Label: "status.successful", Value: func(j *batchv1.Job) string { return strconv.Itoa(int(j.Status.Succeeded)) }}},
}

// jobState is the column STATUS. A job that has ended shows how, also while it is being deleted.
func jobState(j *batchv1.Job) string {
	switch {
	case has(j, batchv1.JobComplete):
		return "Complete"
	case has(j, batchv1.JobFailed):
		return "Failed"
	case j.DeletionTimestamp != nil:
		return "Terminating"
	}
	for _, c := range []batchv1.JobConditionType{batchv1.JobSuspended, batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet} {
		if has(j, c) {
			return string(c)
		}
	}
	return "Running"
}

func has(j *batchv1.Job, t batchv1.JobConditionType) bool {
	for _, c := range j.Status.Conditions {
		if c.Type == t {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// completions is the column COMPLETIONS. Without a number to complete, one success is enough, whatever the parallelism ("0/1 of 3").
func completions(j *batchv1.Job) string {
	switch parallel := value(j.Spec.Parallelism); {
	case j.Spec.Completions != nil:
		return fmt.Sprintf("%d/%d", j.Status.Succeeded, *j.Spec.Completions)
	case parallel > 1:
		return fmt.Sprintf("%d/1 of %d", j.Status.Succeeded, parallel)
	}
	return fmt.Sprintf("%d/1", j.Status.Succeeded)
}

// defaultJob counts failures for each index where there is a limit for each (KEP-3850), so the limit of the whole job goes out of the
// way. With a failure policy (KEP-3329) pods are replaced only once they have failed for good: until then it is not known which rule they
// will match.
func defaultJob(j *batchv1.Job) {
	s := &j.Spec
	if s.Completions == nil && s.Parallelism == nil {
		rule.Fill(&s.Completions, 1)
	}
	rule.Fill(&s.Parallelism, 1)
	backoff, replace := int32(6), batchv1.TerminatingOrFailed
	if s.BackoffLimitPerIndex != nil {
		backoff = math.MaxInt32
	}
	if s.PodFailurePolicy != nil {
		replace = batchv1.Failed
	}
	rule.Fill(&s.BackoffLimit, backoff)
	rule.Fill(&s.PodReplacementPolicy, replace)
	rule.Fill(&s.CompletionMode, batchv1.NonIndexedCompletion)
	rule.Fill(&s.Suspend, false)
	rule.Fill(&s.ManualSelector, false)
	labelsOfTemplate(j, nil)
	defaultJobSpec(s)
}

// labelsOfTemplate gives a job without labels those of its pods, also when a write of its status took them away. They are the same map:
// what is added to the ones of a new job becomes the others'.
func labelsOfTemplate(j, _ *batchv1.Job) {
	if len(j.Labels) == 0 {
		j.Labels = j.Spec.Template.Labels
	}
}

// defaultJobSpec fills what is filled in the templates of cron jobs too.
func defaultJobSpec(s *batchv1.JobSpec) {
	if s.PodFailurePolicy != nil {
		for i := range s.PodFailurePolicy.Rules {
			for k := range s.PodFailurePolicy.Rules[i].OnPodConditions {
				rule.FillZero(&s.PodFailurePolicy.Rules[i].OnPodConditions[k].Status, corev1.ConditionTrue)
			}
		}
	}
	podspec.DefaultTemplate(&s.Template)
}

// legacyUID and legacyName are the labels from before those of batch.kubernetes.io; both pairs are set.
const (
	legacyUID  = "controller-uid"
	legacyName = "job-name"
)

// prepareJob gives a new job the selector by which it finds its pods: its own UID.
func prepareJob(j, old *batchv1.Job) {
	if old == nil || old.Spec.Scheduling == nil {
		j.Spec.Scheduling = nil // an alpha field, off by default upstream too
	}
	if old != nil || is(j.Spec.ManualSelector) {
		return
	}
	t := &j.Spec.Template
	labels := map[string]string{legacyUID: string(j.UID), batchv1.ControllerUidLabel: string(j.UID), legacyName: j.Name,
		batchv1.JobNameLabel: j.Name}
	maps.Copy(labels, t.Labels) // whose wrong ones are refused later
	if shared(j.Labels, t.Labels) || len(j.Labels) == 0 && len(validation.IsValidLabelValue(j.Name)) == 0 {
		j.Labels = maps.Clone(labels) // where there are none, the template's are complaint enough
	}
	t.Labels = labels
	if j.Spec.Selector == nil {
		j.Spec.Selector = &metav1.LabelSelector{}
	}
	if j.Spec.Selector.MatchLabels == nil {
		j.Spec.Selector.MatchLabels = map[string]string{}
	}
	if _, set := j.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel]; !set {
		j.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel] = string(j.UID)
	}
}

// shared says that two maps are one, as defaulting leaves them.
func shared(a, b map[string]string) bool {
	return a != nil && reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer()
}
