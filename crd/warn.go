package crd

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	kubeversion "k8s.io/apimachinery/pkg/version"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/resource"
)

// Warnings implements resource.Kind: it warns of finalizers that others may use too.
func (k *Kind) Warnings(_ *features.Set, obj, old resource.Object) (list []string) {
	names := slices.Compact(slices.Sorted(slices.Values(obj.GetFinalizers())))
	for _, f := range names {
		if old == nil || !slices.Contains(old.GetFinalizers(), f) {
			list = append(list, finalizerWarnings(f)...)
		}
	}
	return list
}

func finalizerWarnings(name string) (list []string) {
	const at = "metadata.finalizers"
	for _, says := range validation.IsQualifiedName(name) {
		list = append(list, fmt.Sprintf("%s: %q: %s", at, name, says))
	}
	switch {
	case strings.Contains(name, "/"), name == metav1.FinalizerOrphanDependents, name == metav1.FinalizerDeleteDependents, name == "kubernetes":
	case strings.Contains(name, "."):
		list = append(list, fmt.Sprintf(
			"%s: %q: prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers", at,
			name))
	default:
		list = append(list, fmt.Sprintf(
			"%s: %q: prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers", at, name))
	}
	return list
}

// Deprecation returns the warning that comes with every answer in a version; "" for none.
func (k *Kind) Deprecation(gvk schema.GroupVersionKind) string {
	v := k.find(gvk)
	if v == nil || !v.spec.Deprecated {
		return ""
	}
	if v.spec.DeprecationWarning != nil {
		return *v.spec.DeprecationWarning
	}
	text := fmt.Sprintf("%s/%s %s is deprecated", gvk.Group, gvk.Version, gvk.Kind)
	best := ""
	for _, o := range k.all {
		newer := kubeversion.CompareKubeAwareVersionStrings(gvk.Version, o.spec.Name) < 0
		if o.spec.Served && !o.spec.Deprecated && newer && (best == "" || kubeversion.CompareKubeAwareVersionStrings(best, o.spec.Name) < 0) {
			best = o.spec.Name
		}
	}
	if best != "" {
		text += fmt.Sprintf("; use %s/%s %s", gvk.Group, best, gvk.Kind)
	}
	return text
}
