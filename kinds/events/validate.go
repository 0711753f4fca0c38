package events

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// strict adds to what is demanded of every event what is demanded of those sent as events.k8s.io/v1: they say when it
// happened, carry nothing of old, and once stored only their series goes on. Errors name the fields of the core group, as
// upstream's do.
func strict(every func(e, old *corev1.Event) field.ErrorList) func(e, old *corev1.Event) field.ErrorList {
	return func(e, old *corev1.Event) field.ErrorList {
		if old != nil {
			return append(every(e, old), frozen(e, old)...)
		}
		return append(every(e, nil), created(e)...)
	}
}

func created(e *corev1.Event) field.ErrorList {
	errs := series(e.Series, field.NewPath("series"))
	if e.EventTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("eventTime"), ""))
	}
	if e.Type != corev1.EventTypeNormal && e.Type != corev1.EventTypeWarning {
		errs = append(errs, field.Invalid(field.NewPath("type"), "", "has invalid value: "+e.Type))
	}
	for _, f := range []struct {
		name string
		set  bool
	}{{"firstTimestamp", !e.FirstTimestamp.IsZero()}, {"lastTimestamp", !e.LastTimestamp.IsZero()}, {"count", e.Count != 0},
		{"source", e.Source != corev1.EventSource{}}} {
		if f.set {
			errs = append(errs, field.Invalid(field.NewPath(f.name), "", "needs to be unset"))
		}
	}
	return errs
}

func series(s *corev1.EventSeries, path *field.Path) (errs field.ErrorList) {
	if s == nil {
		return nil
	}
	if s.Count < 2 {
		errs = append(errs, field.Invalid(path.Child("count"), "", "should be at least 2"))
	}
	if s.LastObservedTime.IsZero() {
		errs = append(errs, field.Required(path.Child("lastObservedTime"), ""))
	}
	return errs
}

func frozen(e, old *corev1.Event) (errs field.ErrorList) {
	if !resource.Same(e.Series, old.Series) {
		errs = series(e.Series, field.NewPath("series"))
	}
	for _, f := range []struct {
		name string
		a, b any
	}{
		{"involvedObject", e.InvolvedObject, old.InvolvedObject}, {"reason", e.Reason, old.Reason},
		{"message", e.Message, old.Message}, {"source", e.Source, old.Source}, {"firstTimestamp", e.FirstTimestamp, old.FirstTimestamp},
		{"lastTimestamp", e.LastTimestamp, old.LastTimestamp}, {"count", e.Count, old.Count},
		{"reason", e.Reason, old.Reason}, // told of twice upstream
		{"type", e.Type, old.Type},
		{"eventTime", e.EventTime, old.EventTime}, {"action", e.Action, old.Action}, {"related", e.Related, old.Related},
		{"reportingController", e.ReportingController, old.ReportingController},
		{"reportingInstance", e.ReportingInstance, old.ReportingInstance},
	} {
		errs = append(errs, rule.Frozen(f.a, f.b, field.NewPath(f.name))...)
	}
	return errs
}
