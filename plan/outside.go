package plan

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// provisionedBy is the annotation by which a claim says who is to make its volume.
const provisionedBy = "volume.kubernetes.io/storage-provisioner"

// outsiders stand in for the controllers of storage that clusters have beside Kubernetes' own: volumes are made, attached, detached,
// resized and removed at once.
func outsiders() []loop.Loop {
	return []loop.Loop{
		&loop.Controller[*corev1.PersistentVolumeClaim]{Name: "provisioner", For: kinds.PersistentVolumeClaims,
			Writes: []resource.Kind{kinds.PersistentVolumes, kinds.PersistentVolumeClaims},
			Reconcile: func(ctx context.Context, c *loop.Ctx, pvc *corev1.PersistentVolumeClaim) (time.Duration, error) {
				if pv := tooSmall(c, pvc); pv != nil {
					return 0, resized(ctx, c, pvc, pv)
				}
				driver := pvc.Annotations[provisionedBy]
				if driver == "" || pvc.Spec.VolumeName != "" || pvc.DeletionTimestamp != nil || resource.Get(c, kinds.PersistentVolumes, "",
					volumeName(pvc)) != nil {
					return 0, nil
				}
				_, err := c.Create(ctx, kinds.PersistentVolumes, provided(c, pvc, driver))
				return 0, err
			}},
		&loop.Controller[*corev1.PersistentVolume]{Name: "disposer", For: kinds.PersistentVolumes,
			Writes: []resource.Kind{kinds.PersistentVolumes},
			Reconcile: func(ctx context.Context, c *loop.Ctx, pv *corev1.PersistentVolume) (time.Duration, error) {
				if pv.Status.Phase == corev1.VolumeReleased && pv.DeletionTimestamp == nil && pv.Spec.CSI != nil &&
					pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
					return 0, c.Delete(ctx, kinds.PersistentVolumes, pv)
				}
				return 0, letGo(ctx, c, kinds.PersistentVolumes, pv)
			}},
		&loop.Controller[*storagev1.VolumeAttachment]{Name: "attacher", For: kinds.VolumeAttachments,
			Writes: []resource.Kind{kinds.VolumeAttachments},
			Reconcile: func(ctx context.Context, c *loop.Ctx, va *storagev1.VolumeAttachment) (time.Duration, error) {
				if va.Status.Attached || va.DeletionTimestamp != nil {
					return 0, letGo(ctx, c, kinds.VolumeAttachments, va)
				}
				next := resource.Clone(va)
				next.Status.Attached = true
				return 0, c.UpdateStatus(ctx, kinds.VolumeAttachments, next)
			}},
	}
}

// letGo takes the finalizers of storage drivers off an object that is deleted.
func letGo(ctx context.Context, c *loop.Ctx, k resource.Kind, obj resource.Object) error {
	driver := func(name string) bool {
		return strings.HasPrefix(name, "external-attacher/") || strings.HasPrefix(name, "external-provisioner.")
	}
	if obj.GetDeletionTimestamp() == nil || !slices.ContainsFunc(obj.GetFinalizers(), driver) {
		return nil
	}
	next := resource.Clone(obj)
	next.SetFinalizers(slices.DeleteFunc(next.GetFinalizers(), driver))
	return c.Update(ctx, k, next)
}

// tooSmall is the volume of a claim that asks for more than it has; nil: there is none, or not one of a driver.
func tooSmall(read resource.Reader, pvc *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	if pvc.Status.Phase != corev1.ClaimBound || pvc.DeletionTimestamp != nil ||
		pvc.Spec.Resources.Requests.Storage().Cmp(*pvc.Status.Capacity.Storage()) <= 0 {
		return nil
	}
	pv := resource.Get(read, kinds.PersistentVolumes, "", pvc.Spec.VolumeName)
	if pv == nil || pv.Spec.CSI == nil {
		return nil
	}
	return pv
}

// resized gives a volume the size that its claim asks for, and then has the claim say so.
func resized(ctx context.Context, c *loop.Ctx, pvc *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) error {
	if size := pvc.Spec.Resources.Requests[corev1.ResourceStorage]; pv.Spec.Capacity.Storage().Cmp(size) < 0 {
		next := resource.Clone(pv)
		next.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: size}
		if err := c.Update(ctx, kinds.PersistentVolumes, next); err != nil {
			return err
		}
	}
	next := resource.Clone(pvc)
	next.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: pvc.Spec.Resources.Requests[corev1.ResourceStorage]}
	return c.UpdateStatus(ctx, kinds.PersistentVolumeClaims, next)
}

func volumeName(pvc *corev1.PersistentVolumeClaim) string { return "pvc-" + string(pvc.UID) }

// provided is the volume that a claim gets, of the class that it asks for. It can be had on every node.
func provided(read resource.Reader, pvc *corev1.PersistentVolumeClaim, driver string) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{AccessModes: pvc.Spec.AccessModes, Capacity: pvc.Spec.Resources.Requests,
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete, VolumeMode: pvc.Spec.VolumeMode,
		ClaimRef: &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: pvc.Namespace,
			Name: pvc.Name, UID: pvc.UID},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver,
			VolumeHandle: string(pvc.UID)}}}}
	pv.Name, pv.Annotations = volumeName(pvc), map[string]string{"pv.kubernetes.io/provisioned-by": driver}
	if pvc.Spec.StorageClassName != nil {
		pv.Spec.StorageClassName = *pvc.Spec.StorageClassName
		if class := resource.Get(read, kinds.StorageClasses, "", pv.Spec.StorageClassName); class != nil && class.ReclaimPolicy != nil {
			pv.Spec.PersistentVolumeReclaimPolicy = cmp.Or(*class.ReclaimPolicy, pv.Spec.PersistentVolumeReclaimPolicy)
		}
	}
	return pv
}
