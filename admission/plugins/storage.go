package plugins

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/storage"
	"github.com/kloop-dev/kloop/resource"
)

const (
	defaultStorage     = "storageclass.kubernetes.io/is-default-class"
	defaultStorageBeta = "storageclass.beta.kubernetes.io/is-default-class"
)

// defaultStorageClass gives a claim that names no class the default one; of several it is the newest.
func defaultStorageClass(_ context.Context, r *admission.Request) error {
	claim, ok := r.Object.(*corev1.PersistentVolumeClaim)
	if !ok || !r.On("", "persistentvolumeclaims", admission.Create) || claim.Spec.StorageClassName != nil {
		return nil
	}
	if _, ok := claim.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return nil
	}
	var best *storagev1.StorageClass
	for _, c := range resource.List(r.Read, storage.StorageClasses, "") {
		if (c.Annotations[defaultStorage] == "true" || c.Annotations[defaultStorageBeta] == "true") && newer(c, best) {
			best = c
		}
	}
	if best != nil {
		claim.Spec.StorageClassName = &best.Name
	}
	return nil
}

// newer tells whether a is to be preferred to b as a default: it was made later, or its name is the lower one.
func newer[T interface {
	metav1.Object
	comparable
}](a, b T) bool {
	var none T
	if b == none {
		return true
	}
	x, y := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	if x.Equal(&y) {
		return a.GetName() < b.GetName()
	}
	return y.Before(&x)
}

// protectStorage keeps volumes and claims from being deleted while they are used; loops take the finalizers
// away when they are not.
func protectStorage(_ context.Context, r *admission.Request) error {
	finalizer := ""
	switch {
	case r.On("", "persistentvolumeclaims", admission.Create):
		finalizer = "kubernetes.io/pvc-protection"
	case r.On("", "persistentvolumes", admission.Create):
		finalizer = "kubernetes.io/pv-protection"
	case r.On("storage.k8s.io", "volumeattributesclasses", admission.Create):
		finalizer = "kubernetes.io/vac-protection"
	default:
		return nil
	}
	if list := r.Object.GetFinalizers(); !slices.Contains(list, finalizer) {
		r.Object.SetFinalizers(append(list, finalizer))
	}
	return nil
}

// checkResize lets a claim grow only when it is bound and its class can.
func checkResize(_ context.Context, r *admission.Request) error {
	claim, ok := r.Object.(*corev1.PersistentVolumeClaim)
	if !ok || !r.On("", "persistentvolumeclaims", admission.Update) {
		return nil
	}
	old, ok := r.Old.(*corev1.PersistentVolumeClaim)
	if !ok {
		return nil
	}
	size, was := claim.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
	switch {
	case size.Cmp(was) <= 0:
		return nil
	case old.Status.Phase != corev1.ClaimBound:
		return r.Refuse("Only bound persistent volume claims can be expanded")
	case !resizable(r.Read, claim, old):
		return r.Refuse("only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize")
	}
	return nil
}

func resizable(read resource.Reader, claim, old *corev1.PersistentVolumeClaim) bool {
	name := core.ClaimClass(claim)
	if name == "" || name != core.ClaimClass(old) {
		return false
	}
	c := resource.Get(read, storage.StorageClasses, "", name)
	return c != nil && c.AllowVolumeExpansion != nil && *c.AllowVolumeExpansion
}
