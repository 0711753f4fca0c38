package events

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
)

// What the texts of an event may hold, in bytes.
const (
	maxWord = 128
	maxNote = 1024
)

// validate checks an event that was sent as events.k8s.io/v1: it must say who saw what when, and once stored
// only its series goes on. Errors name the fields of the core group, as upstream's do.
func validate(e, old *v1.Event) (errs field.ErrorList) {
	if old != nil {
		return frozen(e, old)
	}
	add := func(list field.ErrorList) { errs = append(errs, list...) }
	if len(rule.PathSegment(e.Name, false)) == 0 && e.Name != "" { // else the general check complains
		add(rule.Format(e.Name, field.NewPath("metadata", "name"), rule.Subdomain))
	}
	add(place(e))
	if e.EventTime.IsZero() {
		add(field.ErrorList{field.Required(field.NewPath("eventTime"), "")})
	}
	add(series(e.Series, field.NewPath("series")))
	add(rule.Needed(e.ReportingController, field.NewPath("reportingController")))
	add(rule.Format(e.ReportingController, field.NewPath("reportingController"), utilvalidation.IsQualifiedName))
	for _, f := range []struct{ name, v string }{{"reportingInstance", e.ReportingInstance}, {"action", e.Action}, {"reason", e.Reason}} {
		add(rule.Needed(f.v, field.NewPath(f.name)))
		if len(f.v) > maxWord {
			add(field.ErrorList{field.Invalid(field.NewPath(f.name), "", "can have at most 128 characters")})
		}
	}
	if len(e.Message) > maxNote {
		add(field.ErrorList{field.Invalid(field.NewPath("message"), "", "can have at most 1024 characters")})
	}
	if e.Type != v1.EventTypeNormal && e.Type != v1.EventTypeWarning {
		add(field.ErrorList{field.Invalid(field.NewPath("type"), "", "has invalid value: "+e.Type)})
	}
	for name, set := range map[string]bool{"firstTimestamp": !e.FirstTimestamp.IsZero(), "lastTimestamp": !e.LastTimestamp.IsZero(),
		"count": e.Count != 0, "source": e.Source != v1.EventSource{}} {
		if set {
			add(field.ErrorList{field.Invalid(field.NewPath(name), "", "needs to be unset")})
		}
	}
	return errs
}

// place checks that an event lies where its object does; those of objects without a namespace lie in default
// or kube-system.
func place(e *v1.Event) field.ErrorList {
	ns := e.InvolvedObject.Namespace
	if ns == e.Namespace || ns == "" && (e.Namespace == metav1.NamespaceDefault || e.Namespace == metav1.NamespaceSystem) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("involvedObject", "namespace"), ns, "does not match event.namespace")}
}

func series(s *v1.EventSeries, path *field.Path) (errs field.ErrorList) {
	if s == nil {
		return nil
	}
	if s.Count < 2 {
		errs = append(errs, field.Invalid(path.Child("count"), s.Count, "should be at least 2"))
	}
	if s.LastObservedTime.IsZero() {
		errs = append(errs, field.Required(path.Child("lastObservedTime"), ""))
	}
	return errs
}

func frozen(e, old *v1.Event) (errs field.ErrorList) {
	if e.Series != nil && !rule.Same(e.Series, old.Series) {
		errs = series(e.Series, field.NewPath("series"))
	}
	for _, f := range []struct {
		name string
		a, b any
	}{
		{"involvedObject", e.InvolvedObject, old.InvolvedObject}, {"reason", e.Reason, old.Reason},
		{"message", e.Message, old.Message}, {"source", e.Source, old.Source}, {"firstTimestamp", e.FirstTimestamp, old.FirstTimestamp},
		{"lastTimestamp", e.LastTimestamp, old.LastTimestamp}, {"count", e.Count, old.Count}, {"type", e.Type, old.Type},
		{"eventTime", e.EventTime, old.EventTime}, {"action", e.Action, old.Action}, {"related", e.Related, old.Related},
		{"reportingController", e.ReportingController, old.ReportingController},
		{"reportingInstance", e.ReportingInstance, old.ReportingInstance},
	} {
		errs = append(errs, rule.Frozen(f.a, f.b, field.NewPath(f.name))...)
	}
	return errs
}
