// Package cell makes the texts that several tables print alike.
package cell

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kloop-dev/kloop/resource"
)

// The words for what is not there.
const (
	None  = "<none>"
	Unset = "<unset>"
)

// Pods returns the wide columns Containers and Images of a kind with a pod template.
func Pods[T resource.Object](template func(T) *corev1.PodTemplateSpec) []resource.Column[T] {
	return []resource.Column[T]{
		resource.Wide("Containers", "string", func(o T) any { return Names(template(o)) }),
		resource.Wide("Images", "string", func(o T) any { return Images(template(o)) }),
	}
}

// Selecting returns the wide column Selector.
func Selecting[T resource.Object](selector func(T) *metav1.LabelSelector) resource.Column[T] {
	return resource.Wide("Selector", "string", func(o T) any { return Selector(selector(o)) })
}

// Names lists the containers of a template.
func Names(t *corev1.PodTemplateSpec) string {
	return each(t, func(c corev1.Container) string { return c.Name })
}

// Images lists the images of a template.
func Images(t *corev1.PodTemplateSpec) string {
	return each(t, func(c corev1.Container) string { return c.Image })
}

func each(t *corev1.PodTemplateSpec, say func(corev1.Container) string) string {
	list := make([]string, len(t.Spec.Containers))
	for i, c := range t.Spec.Containers {
		list[i] = say(c)
	}
	return strings.Join(list, ",")
}

// Selector prints a label selector.
func Selector(s *metav1.LabelSelector) string { return metav1.FormatLabelSelector(s) }

// Labels prints labels.
func Labels(m map[string]string) string {
	if len(m) == 0 {
		return None
	}
	return labels.Set(m).String()
}

// Or returns s, or the other text when s is empty.
func Or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// Bool prints a flag that may be unset.
func Bool(b *bool) string {
	switch {
	case b == nil:
		return Unset
	case *b:
		return "True"
	}
	return "False"
}

// Took prints how long something took; end may be nil when it still runs.
func Took(start, end *metav1.Time) string {
	switch {
	case start == nil:
		return ""
	case end == nil:
		return duration.HumanDuration(time.Since(start.Time))
	}
	return duration.HumanDuration(end.Sub(start.Time))
}

// Few joins at most three of the texts and says how many more there are.
func Few(list []string, more func(n int) string) string {
	if len(list) <= 3 {
		return strings.Join(list, ",")
	}
	return strings.Join(list[:3], ",") + more(len(list)-3)
}
