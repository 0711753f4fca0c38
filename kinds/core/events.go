package core

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds/cell"
	"github.com/kloop-dev/kloop/kinds/events"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// EventLife is the time for which events are kept.
const EventLife = time.Hour

// Events declares the kind. The group events.k8s.io serves the same objects.
var Events = &resource.Def[*corev1.Event]{
	GVK: gvk("Event"), Plural: "events", Short: []string{"ev"}, Namespaced: true,
	Quirks: resource.Quirks{MetaUpdateOnly: true, Uncached: true},
	Name:   rule.Unchecked, CreateOnUpdate: true, Validate: resource.Serving(validateEvent("reportingComponent")),
	TTL: func(*corev1.Event) time.Duration { return EventLife },
	Select: []resource.Field[*corev1.Event]{ // in the other group by other names, which the server knows
		{Label: "involvedObject.kind", Value: func(e *corev1.Event) string { return e.InvolvedObject.Kind }},
		{Label: "involvedObject.namespace", Value: func(e *corev1.Event) string { return e.InvolvedObject.Namespace }},
		{Label: "involvedObject.name", Value: func(e *corev1.Event) string { return e.InvolvedObject.Name }},
		{Label: "involvedObject.uid", Value: func(e *corev1.Event) string { return string(e.InvolvedObject.UID) }},
		{Label: "involvedObject.apiVersion", Value: func(e *corev1.Event) string { return e.InvolvedObject.APIVersion }},
		{Label: "involvedObject.resourceVersion", Value: func(e *corev1.Event) string { return e.InvolvedObject.ResourceVersion }},
		{Label: "involvedObject.fieldPath", Value: func(e *corev1.Event) string { return e.InvolvedObject.FieldPath }},
		{Label: "reason", Value: func(e *corev1.Event) string { return e.Reason }},
		{Label: "reportingComponent", Value: func(e *corev1.Event) string { return e.ReportingController }},
		{Label: "source", Value: func(e *corev1.Event) string { return cell.Or(e.Source.Component, e.ReportingController) }},
		{Label: "type", Value: func(e *corev1.Event) string { return e.Type }},
	},
	Columns: eventColumns,
	Also:    []resource.Version[*corev1.Event]{events.V1(validateEvent("reportingController"))},
}

var eventColumns = []resource.Column[*corev1.Event]{
	resource.Col("Last Seen", "string", func(e *corev1.Event) any { return lastSeen(e) }),
	resource.Col("Type", "string", func(e *corev1.Event) any { return e.Type }),
	resource.Col("Reason", "string", func(e *corev1.Event) any { return e.Reason }),
	resource.Col("Object", "string", func(e *corev1.Event) any { return eventObject(e) }),
	resource.Wide("Subobject", "string", func(e *corev1.Event) any { return e.InvolvedObject.FieldPath }),
	resource.Wide("Source", "string", func(e *corev1.Event) any { return eventSource(e) }),
	resource.Col("Message", "string", func(e *corev1.Event) any { return strings.TrimSpace(e.Message) }),
	resource.Wide("First Seen", "string", func(e *corev1.Event) any { return firstSeen(e) }),
	resource.Wide("Count", "string", func(e *corev1.Event) any { return eventCount(e) }),
	{Name: "Name", Type: "string", Format: "name", Priority: 1, Cell: func(e *corev1.Event) any { return e.Name }},
}

func firstSeen(e *corev1.Event) string {
	if e.FirstTimestamp.IsZero() {
		return resource.Since(metav1.Time(e.EventTime))
	}
	return resource.Since(e.FirstTimestamp)
}

// lastSeen is the column LAST SEEN, of events of both forms: those of events.k8s.io count in a series (KEP-383).
func lastSeen(e *corev1.Event) string {
	switch {
	case e.Series != nil:
		return resource.Since(metav1.Time(e.Series.LastObservedTime))
	case e.LastTimestamp.IsZero():
		return firstSeen(e)
	}
	return resource.Since(e.LastTimestamp)
}

func eventCount(e *corev1.Event) int64 {
	switch {
	case e.Series != nil:
		return int64(e.Series.Count)
	case e.Count == 0:
		return 1 // newer clients count in series only
	}
	return int64(e.Count)
}

func eventObject(e *corev1.Event) string {
	kind := strings.ToLower(e.InvolvedObject.Kind)
	if e.InvolvedObject.Name == "" {
		return kind
	}
	return kind + "/" + e.InvolvedObject.Name
}

func eventSource(e *corev1.Event) string {
	from, at := cell.Or(e.Source.Component, e.ReportingController), cell.Or(e.Source.Host, e.ReportingInstance)
	if at == "" {
		return from
	}
	return from + ", " + at
}
