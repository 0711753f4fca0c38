package attachdetach

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Took hears how long something took with a volume of a plugin, by upstream's names: volume_attach, volume_detach or provision; nil: nobody
// asks. The objects tell it, whoever did it.
type Took func(operation, plugin string, took time.Duration)

// What TimesIn counts. Volumes that are made are counted whole, the waits of who makes them among it.
var (
	bounds     = []float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600}
	operations = &loop.Figure{Name: "storage_operation_duration_seconds", Help: "How long volumes took to be attached and detached.",
		Labels: []string{"migrated", "operation_name", "status", "volume_plugin"}, Bounds: bounds}
	whole = &loop.Figure{Name: "volume_operation_total_seconds", Help: "How long claims took to get a volume that was made for them.",
		Labels: []string{"operation_name", "plugin_name"}, Bounds: bounds}
)

// TimesIn counts in figures, under the names of upstream's controller manager; nil if those are.
func TimesIn(figures *loop.Figures) Took {
	if figures == nil {
		return nil
	}
	return func(operation, plugin string, took time.Duration) {
		if operation == operationProvision {
			figures.Series(whole, operation, plugin).Add(took.Seconds())
			return
		}
		figures.Series(operations, "false", operation, "success", plugin).Add(took.Seconds())
	}
}

func (t Took) attachment(c client.Change, _ resource.Reader, _ func(ns, name string)) {
	old, ok := c.Old.(*storagev1.VolumeAttachment)
	if !ok || t == nil {
		return // it has just come
	}
	plugin := "kubernetes.io/csi:" + old.Spec.Attacher
	switch now, there := c.New.(*storagev1.VolumeAttachment); {
	case there && now.Status.Attached && !old.Status.Attached:
		t(operationAttach, plugin, max(0, time.Since(now.CreationTimestamp.Time)))
	case !there && old.DeletionTimestamp != nil:
		t(operationDetach, plugin, max(0, time.Since(old.DeletionTimestamp.Time)))
	case !there:
		t(operationDetach, plugin, 0)
	}
}

const (
	operationAttach    = "volume_attach"
	operationDetach    = "volume_detach"
	operationProvision = "provision"
)

// claim hears of claims that got a volume which was made for them.
func (t Took) claim(c client.Change, read resource.Reader, _ func(ns, name string)) {
	old, ok := c.Old.(*corev1.PersistentVolumeClaim)
	now, there := c.New.(*corev1.PersistentVolumeClaim)
	if !ok || !there || t == nil || old.Status.Phase == corev1.ClaimBound || now.Status.Phase != corev1.ClaimBound {
		return
	}
	by := cmp.Or(now.Annotations["volume.kubernetes.io/storage-provisioner"], now.Annotations["volume.beta.kubernetes.io/storage-provisioner"])
	pv := resource.Get(read, kinds.PersistentVolumes, "", now.Spec.VolumeName)
	if by != "" && pv != nil && pv.Annotations["pv.kubernetes.io/provisioned-by"] == by {
		t(operationProvision, by, max(0, time.Since(now.CreationTimestamp.Time)))
	}
}
