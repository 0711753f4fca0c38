package health

import (
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	kindsbatch "github.com/kloop-dev/kloop/kinds/batch"
)

// Never says that a cron job has a schedule that no day has: the 30th of February. One that has run has had its day.
func Never(c *batchv1.CronJob, now time.Time) bool {
	if c.Status.LastScheduleTime != nil || c.Status.LastSuccessfulTime != nil || strings.HasPrefix(c.Spec.Schedule, "@") {
		return false
	}
	zone := time.UTC
	if name := ptr.Deref(c.Spec.TimeZone, ""); name != "" {
		if in, err := time.LoadLocation(name); err == nil {
			zone = in
		}
	}
	s, err := kindsbatch.ParseSchedule(c.Spec.Schedule, zone)
	return err == nil && s.Next(now).IsZero()
}

// RefusesAll says of a budget that no number of healthy pods lets one go, and by which of its fields.
func RefusesAll(b *policyv1.PodDisruptionBudget) (field string) {
	is := func(v *intstr.IntOrString, texts ...string) bool {
		return v != nil && slices.Contains(texts, v.String())
	}
	switch {
	case is(b.Spec.MaxUnavailable, "0", "0%"):
		return "maxUnavailable=" + b.Spec.MaxUnavailable.String()
	case is(b.Spec.MinAvailable, "100%"):
		return "minAvailable=100%"
	case b.Spec.MinAvailable != nil && b.Spec.MinAvailable.Type == intstr.Int && b.Status.ExpectedPods > 0 &&
		b.Spec.MinAvailable.IntVal >= b.Status.ExpectedPods:
		return "minAvailable=" + b.Spec.MinAvailable.String()
	}
	return ""
}

// NeverAllows is the gap of a budget that guards pods and lets none go, however healthy they are.
func NeverAllows(b *policyv1.PodDisruptionBudget) converge.Health {
	field := RefusesAll(b)
	if field == "" || b.Status.ExpectedPods == 0 || b.Status.ObservedGeneration < b.Generation {
		return converge.Health{}
	}
	return converge.Health{Says: "lets none of its pods go, ever", Want: "status.disruptionsAllowed>0", Have: "spec." + field}
}
