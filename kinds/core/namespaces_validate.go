package core

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/rule"
)

// validateNamespace checks who has to agree before a namespace goes; of a new one, it doesn't say which is wrong.
func validateNamespace(n, _ *corev1.Namespace) field.ErrorList {
	at := specPath.Child("finalizers")
	return finalizerNames(n.Spec.Finalizers, func(int) *field.Path { return at })
}

func validateFinalize(_ *features.Set, n, _ *corev1.Namespace) field.ErrorList {
	return finalizerNames(n.Spec.Finalizers, specPath.Child("finalizers").Index)
}

func finalizerNames(list []corev1.FinalizerName, path func(i int) *field.Path) (errs field.ErrorList) {
	for i, f := range list {
		at := path(i)
		bad := rule.Format(string(f), at, utilvalidation.IsQualifiedName)
		known := f == corev1.FinalizerKubernetes || f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
		if !known && !strings.Contains(string(f), "/") {
			bad = append(bad, field.Invalid(at, f, "name is neither a standard finalizer name nor is it fully qualified"))
		}
		errs = append(errs, bad...)
	}
	return errs
}

// validateNamespaceStatus ties the phase to deletionTimestamp: no write may claim that a namespace goes, or stays.
func validateNamespaceStatus(n, _ *corev1.Namespace) field.ErrorList {
	want, when := corev1.NamespaceActive, "empty"
	if n.DeletionTimestamp != nil {
		want, when = corev1.NamespaceTerminating, "not empty"
	}
	if n.Status.Phase != want {
		return field.ErrorList{field.Invalid(field.NewPath("status", "Phase"), n.Status.Phase,
			"may only be '"+string(want)+"' if `deletionTimestamp` is "+when)}
	}
	return nil
}
