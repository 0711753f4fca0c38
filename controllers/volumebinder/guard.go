package volumebinder

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/resource"
)

// The finalizers that keep a volume, should it be deleted before its claim, until what its policy Delete asks for is done: of
// provisioners of the tree, and of those outside, which put it on and take it off themselves.
const (
	treeFinalizer     = "kubernetes.io/pv-controller"
	externalFinalizer = "external-provisioner.volume.kubernetes.io/finalizer"
)

// migrated are the provisioners of the tree for which CSI drivers stand in.
var migrated = []string{"kubernetes.io/aws-ebs", "kubernetes.io/azure-disk", "kubernetes.io/azure-file", "kubernetes.io/cinder",
	"kubernetes.io/gce-pd", "kubernetes.io/portworx-volume", "kubernetes.io/vsphere-volume"}

// guarded is the volume with the finalizers that its provisioner and its policy ask for; nil: it has them.
func guarded(v *corev1.PersistentVolume) *corev1.PersistentVolume {
	by := v.Annotations[provisionedBy]
	want := slices.Clone(v.Finalizers)
	remove := func(name string) { want = slices.DeleteFunc(want, func(f string) bool { return f == name }) }
	switch {
	case !strings.HasPrefix(by, inTree):
		return nil
	case slices.Contains(migrated, by):
		remove(treeFinalizer)
	default:
		remove(externalFinalizer)
		switch has := slices.Contains(want, treeFinalizer); {
		case v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete:
			remove(treeFinalizer)
		case !has && v.DeletionTimestamp == nil: // none can be added to an object that goes
			want = append(want, treeFinalizer)
		}
	}
	if slices.Equal(want, v.Finalizers) {
		return nil
	}
	next := resource.Clone(v)
	next.Finalizers = want
	return next
}
