package batch

import (
	"strings"
	"time"
	_ "time/tzdata" // for machines that have none

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/cell"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/kinds/template"
	"github.com/kloop-dev/kloop/resource"
)

// longestCronJob is the longest name that leaves room for the suffix of its jobs.
const longestCronJob = 52

// CronJobs declares the kind.
var CronJobs = &resource.Def[*batchv1.CronJob]{
	GVK: gvk("CronJob"), Plural: "cronjobs", Short: []string{"cj"}, Categories: all, Namespaced: true,
	Quirks:     resource.Quirks{MetaUpdateOnly: true, StatusUnchecked: true, Declared: []string{"Required spec.schedule"}},
	Generation: true, Status: true, Default: defaultCronJob,
	Gated: template.Gated(func(c *batchv1.CronJob) *corev1.PodTemplateSpec { return &c.Spec.JobTemplate.Spec.Template },
		resource.Serving(validateCronJob)),
	Prepare: resource.Serving(prepareCronJob), Warn: resource.Serving(warnCronJob),
	Columns: append([]resource.Column[*batchv1.CronJob]{
		resource.Col("Schedule", "string", func(c *batchv1.CronJob) any { return c.Spec.Schedule }),
		resource.Col("Timezone", "string", func(c *batchv1.CronJob) any {
			if c.Spec.TimeZone == nil {
				return cell.None
			}
			return *c.Spec.TimeZone
		}),
		resource.Col("Suspend", "boolean", func(c *batchv1.CronJob) any { return cell.Bool(c.Spec.Suspend) }),
		resource.Col("Active", "integer", func(c *batchv1.CronJob) any { return int64(len(c.Status.Active)) }),
		resource.Col("Last Schedule", "string", func(c *batchv1.CronJob) any {
			if c.Status.LastScheduleTime == nil {
				return cell.None
			}
			return resource.Since(*c.Status.LastScheduleTime)
		}),
		resource.Age[*batchv1.CronJob](),
	}, append(cell.Pods(func(c *batchv1.CronJob) *corev1.PodTemplateSpec { return &c.Spec.JobTemplate.Spec.Template }),
		cell.Selecting(func(c *batchv1.CronJob) *metav1.LabelSelector { return c.Spec.JobTemplate.Spec.Selector }))...),
}

func defaultCronJob(c *batchv1.CronJob) {
	rule.FillZero(&c.Spec.ConcurrencyPolicy, batchv1.AllowConcurrent)
	rule.Fill(&c.Spec.Suspend, false)
	rule.Fill(&c.Spec.SuccessfulJobsHistoryLimit, 3)
	rule.Fill(&c.Spec.FailedJobsHistoryLimit, 1)
	defaultJobSpec(&c.Spec.JobTemplate.Spec)
}

// prepareCronJob drops an alpha field that is off by default upstream too.
func prepareCronJob(c, old *batchv1.CronJob) {
	if old == nil || old.Spec.JobTemplate.Spec.Scheduling == nil {
		c.Spec.JobTemplate.Spec.Scheduling = nil
	}
}

// warnCronJob warns of an update only when it changes the spec, or each controller's write would bring the warning again.
func warnCronJob(c, old *batchv1.CronJob) []string {
	name, spec := c.Name, &c.Spec.JobTemplate.Spec
	if old != nil {
		if name = ""; resource.Same(c.Spec, old.Spec) {
			return nil
		}
	}
	return warnJobSpec(name, spec, field.NewPath("spec", "jobTemplate", "spec"))
}

// validateCronJob bounds the name to 52 characters: jobs get eleven more, the time of the run, and a label holds 63.
func validateCronJob(on *features.Set, c, old *batchv1.CronJob) (errs field.ErrorList) {
	s, spec := &c.Spec, field.NewPath("spec")
	errs = append(errs, schedule(c, old, spec)...)
	errs = append(errs, rule.AtLeastPtr(s.StartingDeadlineSeconds, 0, spec.Child("startingDeadlineSeconds"))...)
	errs = append(errs, timeZone(c, old, spec.Child("timeZone"))...)
	errs = append(errs, rule.Chosen(s.ConcurrencyPolicy, spec.Child("concurrencyPolicy"),
		batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent)...)
	var was *batchv1.JobSpec
	if old != nil {
		was = &old.Spec.JobTemplate.Spec
	}
	errs = append(errs, validateJobTemplate(on, &s.JobTemplate, was, spec.Child("jobTemplate"))...)
	errs = append(errs, rule.AtLeastPtr(s.SuccessfulJobsHistoryLimit, 0, spec.Child("successfulJobsHistoryLimit"))...)
	errs = append(errs, rule.AtLeastPtr(s.FailedJobsHistoryLimit, 0, spec.Child("failedJobsHistoryLimit"))...)
	if old == nil && len(c.Name) > longestCronJob {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), c.Name, "must be no more than 52 characters"))
	}
	return errs
}

// schedule is checked when it changes: older releases took a zone within it (TZ=…), which lives on in stored objects.
func schedule(c, old *batchv1.CronJob, spec *field.Path) (errs field.ErrorList) {
	s, path := &c.Spec, spec.Child("schedule")
	switch {
	case s.Schedule == "":
		errs = append(errs, field.Required(path, ""))
	case old == nil || s.Schedule != old.Spec.Schedule:
		if _, err := ParseSchedule(s.Schedule, time.UTC); err != nil {
			errs = append(errs, field.Invalid(path, s.Schedule, err.Error()))
		}
		if strings.Contains(s.Schedule, "TZ") {
			errs = append(errs, field.Invalid(path, s.Schedule,
				"cannot use TZ or CRON_TZ in schedule, use timeZone field instead"))
		}
	}
	return errs
}

// timeZone must be named (KEP-3140): "local" would be the zone of whatever machine leads the loops.
func timeZone(c, old *batchv1.CronJob, path *field.Path) (errs field.ErrorList) {
	if c.Spec.TimeZone == nil || old != nil && resource.Same(c.Spec.TimeZone, old.Spec.TimeZone) {
		return nil
	}
	zone := *c.Spec.TimeZone
	if zone == "" {
		return field.ErrorList{field.Invalid(path, zone, "timeZone must be nil or non-empty string")}
	}
	if strings.EqualFold(zone, "local") {
		errs = append(errs, field.Invalid(path, zone, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"))
	}
	if _, err := time.LoadLocation(zone); err != nil {
		errs = append(errs, field.Invalid(path, zone, err.Error()))
	}
	return errs
}

// validateJobTemplate takes no selector: each run is a job with one of its own.
func validateJobTemplate(on *features.Set, t *batchv1.JobTemplateSpec, old *batchv1.JobSpec, path *field.Path) (errs field.ErrorList) {
	spec := path.Child("spec")
	errs = validateJobSpec(on, &t.Spec, old, spec)
	if t.Spec.Selector != nil {
		errs = append(errs, field.Invalid(spec.Child("selector"), t.Spec.Selector, "`selector` will be auto-generated"))
	}
	if is(t.Spec.ManualSelector) {
		errs = append(errs, field.NotSupported(spec.Child("manualSelector"), *t.Spec.ManualSelector, []string{"nil", "false"}))
	}
	return errs
}
