package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

var (
	tooManyVolumes = &refusal{plugin: volumeBinding, reasons: []string{"node(s) exceed max volume count"}}
	noSpace        = &refusal{plugin: volumeBinding, reasons: []string{"node(s) did not have enough free storage"}, hopeless: true}
)

// An attachment is a volume as drivers count it: by its handle, or by its claim while it has none.
type attachment struct{ driver, handle string }

// attachmentOf is what a claim needs attached by a CSI driver; none if another kind of volume serves it.
func (st *state) attachmentOf(ns, claim string) (attachment, bool) {
	pvc := resource.Get(st.read, kinds.PersistentVolumeClaims, ns, claim)
	if pvc == nil {
		return attachment{}, false
	}
	if pvc.Spec.VolumeName != "" {
		if pv := resource.Get(st.read, kinds.PersistentVolumes, "", pvc.Spec.VolumeName); pv != nil {
			if pv.Spec.CSI == nil {
				return attachment{}, false
			}
			return attachment{pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle}, true
		}
	}
	sc := resource.Get(st.read, kinds.StorageClasses, "", storageClass(pvc))
	if sc == nil || sc.Provisioner == byHand {
		return attachment{}, false
	}
	return attachment{sc.Provisioner, ns + "/" + claim}, true
}

// checkLimits is the plugin NodeVolumeLimits: a driver attaches only so many volumes to a node, as the node's CSINode
// says.
func (v *volumes) checkLimits(s *slot) *refusal {
	if len(v.attach) == 0 {
		return nil
	}
	info := resource.Get(v.state.read, kinds.CSINodes, "", s.name)
	if info == nil {
		return nil
	}
	for _, d := range info.Spec.Drivers {
		if d.Allocatable == nil || d.Allocatable.Count == nil || !v.uses(d.Name) {
			continue
		}
		all := map[attachment]bool{}
		for _, a := range v.attach {
			if a.driver == d.Name {
				all[a] = true
			}
		}
		v.state.attached(s, d.Name, all)
		if len(all) > int(*d.Allocatable.Count) {
			return tooManyVolumes
		}
	}
	return nil
}

func (v *volumes) uses(driver string) bool {
	for _, a := range v.attach {
		if a.driver == driver {
			return true
		}
	}
	return false
}

// attached adds the volumes of the driver that the slot's pods use.
func (st *state) attached(s *slot, driver string, all map[attachment]bool) {
	for _, t := range s.tasks {
		for _, name := range core.ClaimNames(t.pod) {
			if a, ok := st.attachmentOf(t.pod.Namespace, name); ok && a.driver == driver {
				all[a] = true
			}
		}
	}
}

// room says whether the driver of a class has storage for a claim where the node is, if it tells at all (KEP-1472).
func (w *waitingClaim) room(read resource.Reader, node *corev1.Node) bool {
	d := resource.Get(read, kinds.CSIDrivers, "", w.class.Provisioner)
	if d == nil || d.Spec.StorageCapacity == nil || !*d.Spec.StorageCapacity {
		return true
	}
	want := w.claim.Spec.Resources.Requests[corev1.ResourceStorage]
	for _, c := range resource.List(read, kinds.CSIStorageCapacities, "") {
		if c.StorageClassName != w.class.Name || !reaches(c, node) {
			continue
		}
		if most := c.MaximumVolumeSize; most != nil {
			if most.Cmp(want) >= 0 {
				return true
			}
		} else if c.Capacity != nil && c.Capacity.Cmp(want) >= 0 {
			return true
		}
	}
	return false
}

// reaches says whether the storage can be used from the node.
func reaches(c *storagev1.CSIStorageCapacity, node *corev1.Node) bool {
	if c.NodeTopology == nil {
		return false
	}
	sel, err := metav1.LabelSelectorAsSelector(c.NodeTopology)
	return err == nil && sel.Matches(labels.Set(node.Labels))
}
