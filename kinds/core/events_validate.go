package core

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
)

// What the texts of an event may hold, in bytes.
const (
	maxEventWord    = 128
	maxEventMessage = 1024
)

// validateEvent checks that an event lies where its object does. Events with an event time come from newer
// clients, and have to say more; what they are to call their controller depends on the version.
func validateEvent(controller string) func(e, _ *corev1.Event) field.ErrorList {
	return func(e, _ *corev1.Event) (errs field.ErrorList) {
		at, ns := field.NewPath("involvedObject", "namespace"), e.InvolvedObject.Namespace
		home := e.Namespace == "" || e.Namespace == metav1.NamespaceDefault
		mismatch := field.Invalid(at, ns, "does not match event.namespace")
		if !e.EventTime.IsZero() {
			if ns == "" && !home && e.Namespace != metav1.NamespaceSystem {
				errs = append(errs, mismatch)
			}
			return append(errs, validateNewEvent(e, field.NewPath(controller))...)
		}
		if ns == "" && !home || ns != "" && ns != e.Namespace {
			errs = append(errs, mismatch)
		}
		return errs
	}
}

// validateNewEvent is for events of events.k8s.io/v1, which must say who reports and what was done. Those of the core group are held to
// nothing of it.
func validateNewEvent(e *corev1.Event, at *field.Path) (errs field.ErrorList) {
	errs = append(rule.Needed(e.ReportingController, at), rule.Format(e.ReportingController, at, utilvalidation.IsQualifiedName)...)
	for _, f := range []struct{ name, v string }{{"reportingInstance", e.ReportingInstance}, {"action", e.Action}, {"reason", e.Reason}} {
		at := field.NewPath(f.name)
		errs = append(errs, rule.Needed(f.v, at)...)
		if len(f.v) > maxEventWord {
			errs = append(errs, field.Invalid(at, "", "can have at most 128 characters"))
		}
	}
	if len(e.Message) > maxEventMessage {
		errs = append(errs, field.Invalid(field.NewPath("message"), "", "can have at most 1024 characters"))
	}
	return errs
}

func validateBinding(b, _ *corev1.Binding) (errs field.ErrorList) {
	at := field.NewPath("target")
	if b.Target.Kind != "" {
		errs = append(errs, rule.Among(b.Target.Kind, at.Child("kind"), "Node")...)
	}
	return append(errs, rule.Needed(b.Target.Name, at.Child("name"))...)
}
