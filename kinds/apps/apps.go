// Package apps declares the kinds of the group apps: those that keep sets of pods running.
package apps

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
)

var all = []string{"all"}

func gvk(kind string) schema.GroupVersionKind { return appsv1.SchemeGroupVersion.WithKind(kind) }

// scaleOf reads a scale subresource; a selector that does not parse reads as empty.
func scaleOf(wanted *int32, current int32, selector *metav1.LabelSelector) resource.Scale {
	s := resource.Scale{Current: current}
	if wanted != nil {
		s.Replicas = *wanted
	}
	if sel, err := metav1.LabelSelectorAsSelector(selector); err == nil && !sel.Empty() && selector != nil {
		s.Selector = selectorText(sel)
	}
	return s
}

func selectorText(s labels.Selector) string { return s.String() }

// number reads a count that defaulting has set.
func number(p *int32) int64 {
	if p == nil {
		return 0
	}
	return int64(*p)
}

// labelled gives objects without labels those of their pods, where one comes in a version that did so.
func labelled[T resource.Object](template func(T) map[string]string, versions ...string) func(schema.GroupVersion, T) {
	return func(v schema.GroupVersion, obj T) {
		if len(obj.GetLabels()) == 0 && slices.Contains(versions, v.String()) {
			obj.SetLabels(maps.Clone(template(obj)))
		}
	}
}
