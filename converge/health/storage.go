package health

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/localvolume"
	"github.com/kloop-dev/kloop/resource"
)

func attachmentHealth(_ *converge.World, a *storagev1.VolumeAttachment) converge.Health {
	if e := a.Status.AttachError; e != nil && !a.Status.Attached {
		return converge.Health{Says: "is not attached", Want: "status.attached=true", Have: "status.attachError set", Since: e.Time.Time}
	}
	return converge.Health{}
}

// Unremoved says why a volume of local storage that is to be removed is not; "": nothing stands in the way.
func Unremoved(w *converge.World, v *corev1.PersistentVolume) string {
	node := v.Annotations[localvolume.Node]
	if node == "" || v.Status.Phase != corev1.VolumeReleased ||
		v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		return ""
	}
	n := resource.Get(w.Read, kinds.Nodes, "", node)
	switch {
	case n == nil: // its volumes go with it
		return ""
	case localvolume.Orders(n)[v.Name].Failed != "":
		return "it says: " + localvolume.Orders(n)[v.Name].Failed
	case !NodeAnswers(n):
		return "it is not ready"
	}
	return ""
}

// NodeAnswers says that a node has not been found silent: a condition that it never wrote counts for it.
func NodeAnswers(n *corev1.Node) bool {
	return !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
	})
}

// claimHealth finds no gap in a claim that waits for its first pod and has none.
func claimHealth(w *converge.World, c *corev1.PersistentVolumeClaim) converge.Health {
	want := c.Spec.Resources.Requests[corev1.ResourceStorage]
	switch {
	case c.Status.Phase == corev1.ClaimLost:
		return converge.Health{Says: "has lost its volume", Want: "spec.volumeName=" + c.Spec.VolumeName, Have: "status.phase=Lost"}
	case c.Status.Phase != corev1.ClaimBound:
		if BindsLate(w, c) && len(Users(w, c)) == 0 {
			return converge.Health{}
		}
		return converge.Health{Says: "has no volume", Want: "status.phase=Bound", Have: "status.phase=" + cmp.Or(string(c.Status.Phase),
			"Pending"),
			Since: c.CreationTimestamp.Time}
	}
	if m := c.Status.ModifyVolumeStatus; m != nil && m.Status != "" {
		return converge.Health{Says: "has a volume that is not of its class of attributes", Want: "spec.volumeAttributesClassName=" +
			m.TargetVolumeAttributesClassName, Have: "status.modifyVolumeStatus.status=" + string(m.Status)}
	}
	if have, ok := c.Status.Capacity[corev1.ResourceStorage]; ok && have.Cmp(want) < 0 {
		return converge.Health{Says: "is smaller than asked for", Want: "spec.resources.requests.storage=" + want.String(),
			Have: "status.capacity.storage=" + have.String()}
	}
	return converge.Health{}
}

// ClassOf is the storage class of a claim; nil: it has none that exists.
func ClassOf(w *converge.World, c *corev1.PersistentVolumeClaim) *storagev1.StorageClass {
	if name := core.ClaimClass(c); name != "" {
		return resource.Get(w.Read, kinds.StorageClasses, "", name)
	}
	return nil
}

// BindsLate says that a claim gets its volume when a pod uses it. One that names its volume does not, whatever its class says. Who may not
// read classes goes by what the binder last said.
func BindsLate(w *converge.World, c *corev1.PersistentVolumeClaim) bool {
	if c.Spec.VolumeName != "" || c.DeletionTimestamp != nil {
		return false
	}
	if class := ClassOf(w, c); class != nil {
		return ptr.Deref(class.VolumeBindingMode, "") == storagev1.VolumeBindingWaitForFirstConsumer
	}
	e := w.Newest(c.UID)
	return e != nil && e.Reason == string(storagev1.VolumeBindingWaitForFirstConsumer) && !w.Sees(kinds.StorageClasses, "")
}

// Users are the pods that want the claim and are not through.
func Users(w *converge.World, c *corev1.PersistentVolumeClaim) (list []*corev1.Pod) {
	for _, p := range resource.List(w.Read, kinds.Pods, c.Namespace) {
		if core.Terminal(p) {
			continue
		}
		for _, name := range core.ClaimNames(p) {
			if name == c.Name {
				list = append(list, p)
			}
		}
	}
	return list
}

func volumeHealth(w *converge.World, v *corev1.PersistentVolume) converge.Health {
	if Unremoved(w, v) != "" || v.Status.Phase == corev1.VolumeReleased &&
		v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete && w.Warning(v.UID, "VolumeFailedDelete") != nil {
		return converge.Health{Says: "is not removed yet", Want: "spec.persistentVolumeReclaimPolicy=Delete", Have: "status.phase=Released"}
	}
	if v.Status.Phase == corev1.VolumeFailed {
		return converge.Health{Says: "could not be reclaimed", Want: "spec.persistentVolumeReclaimPolicy=" +
			string(v.Spec.PersistentVolumeReclaimPolicy),
			Have: "status.phase=Failed"}
	}
	return converge.Health{}
}
