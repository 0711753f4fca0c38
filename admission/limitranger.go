package admission

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Sorted yields a resource list by name, so that messages are always the same.
func Sorted(list corev1.ResourceList) func(func(corev1.ResourceName, resource.Quantity) bool) {
	return func(yield func(corev1.ResourceName, resource.Quantity) bool) {
		for _, name := range slices.Sorted(maps.Keys(list)) {
			if !yield(name, list[name]) {
				return
			}
		}
	}
}
