// Package events says how events look in the group events.k8s.io. They are the events of the core group with
// other names for their fields: one store serves both.
package events

import (
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/resource"
)

// V1 is the version events.k8s.io/v1 of the core group's kind; every says what is demanded of events in both.
func V1(every func(e, old *corev1.Event) field.ErrorList) resource.Version[*corev1.Event] {
	return resource.Version[*corev1.Event]{
		GVK:      eventsv1.SchemeGroupVersion.WithKind("Event"),
		New:      func() resource.Object { return &eventsv1.Event{} },
		From:     func(e *corev1.Event) resource.Object { return fromCore(e) },
		To:       func(o resource.Object) *corev1.Event { return toCore(o.(*eventsv1.Event)) },
		Validate: resource.Serving(strict(every)),
	}
}

func fromCore(e *corev1.Event) *eventsv1.Event {
	out := &eventsv1.Event{ObjectMeta: e.ObjectMeta, EventTime: e.EventTime, ReportingController: e.ReportingController,
		ReportingInstance: e.ReportingInstance, Action: e.Action, Reason: e.Reason, Regarding: e.InvolvedObject,
		Related: e.Related, Note: e.Message, Type: e.Type, DeprecatedSource: e.Source,
		DeprecatedFirstTimestamp: e.FirstTimestamp, DeprecatedLastTimestamp: e.LastTimestamp, DeprecatedCount: e.Count}
	if s := e.Series; s != nil {
		out.Series = &eventsv1.EventSeries{Count: s.Count, LastObservedTime: s.LastObservedTime}
	}
	return out
}

func toCore(e *eventsv1.Event) *corev1.Event {
	out := &corev1.Event{ObjectMeta: e.ObjectMeta, EventTime: e.EventTime, ReportingController: e.ReportingController,
		ReportingInstance: e.ReportingInstance, Action: e.Action, Reason: e.Reason, InvolvedObject: e.Regarding,
		Related: e.Related, Message: e.Note, Type: e.Type, Source: e.DeprecatedSource,
		FirstTimestamp: e.DeprecatedFirstTimestamp, LastTimestamp: e.DeprecatedLastTimestamp, Count: e.DeprecatedCount}
	if s := e.Series; s != nil {
		out.Series = &corev1.EventSeries{Count: s.Count, LastObservedTime: s.LastObservedTime}
	}
	return out
}
