package scheduler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/localvolume"
	"github.com/kloop-dev/kloop/resource"
)

var (
	tooManyVolumes = &refusal{plugin: volumeBinding, reasons: []string{"node(s) exceed max volume count"}}
	noSpace        = &refusal{plugin: volumeBinding, reasons: []string{"node(s) did not have enough free storage"}, unresolvable: true}
)

// An attachment is a volume as drivers count it: by its handle, or by its claim while it has none.
type attachment struct{ driver, handle string }

// attachmentOf returns what a CSI driver has to attach for a claim; none if another kind of volume serves it.
func (x *volumeIndex) attachmentOf(ns, claim string) (attachment, bool) {
	pvc := resource.Get(x.st.read, kinds.PersistentVolumeClaims, ns, claim)
	if pvc == nil {
		return attachment{}, false
	}
	if pvc.Spec.VolumeName != "" {
		if pv := resource.Get(x.st.read, kinds.PersistentVolumes, "", pvc.Spec.VolumeName); pv != nil {
			if pv.Spec.CSI == nil {
				return attachment{}, false
			}
			return attachment{pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle}, true
		}
	}
	sc := resource.Get(x.st.read, kinds.StorageClasses, "", core.ClaimClass(pvc))
	if sc == nil || sc.Provisioner == byHand {
		return attachment{}, false
	}
	return attachment{sc.Provisioner, ns + "/" + claim}, true
}

// checkLimits is the plugin NodeVolumeLimits: a driver attaches only so many volumes to a node, as the node's CSINode
// says; one that says so itself must be there.
func (v *volumes) checkLimits(s *nodeInfo) *refusal {
	if len(v.attach) == 0 {
		return nil
	}
	info := resource.Get(v.state.read, kinds.CSINodes, "", s.name)
	for _, want := range v.attach {
		d := driverOf(info, want.driver)
		if d == nil && v.state.volumes.requires(want.driver) {
			return v.state.volumes.noDriver(want.driver)
		}
		if d != nil && d.Allocatable != nil && d.Allocatable.Count != nil && v.excess(s, want.driver, int(*d.Allocatable.Count)) {
			return tooManyVolumes
		}
	}
	return nil
}

func driverOf(info *storagev1.CSINode, name string) *storagev1.CSINodeDriver {
	if info == nil {
		return nil
	}
	i := slices.IndexFunc(info.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == name })
	if i < 0 {
		return nil
	}
	return &info.Spec.Drivers[i]
}

// requires says whether pods may only go where the driver is (KEP-5030).
func (x *volumeIndex) requires(driver string) bool {
	d := resource.Get(x.st.read, kinds.CSIDrivers, "", driver)
	return d != nil && d.Spec.PreventPodSchedulingIfMissing != nil && *d.Spec.PreventPodSchedulingIfMissing
}

// noDriver is the one refusal for this driver.
func (x *volumeIndex) noDriver(name string) *refusal {
	r := x.driverless[name]
	if r == nil {
		r = &refusal{plugin: volumeBinding, reasons: []string{name + " CSI driver is not installed on the node"}}
		x.driverless[name] = r
	}
	return r
}

// excess says whether the volumes that are not attached yet are more than the driver can attach beside those that are.
func (v *volumes) excess(s *nodeInfo, driver string, most int) bool {
	all := map[attachment]bool{}
	v.state.volumes.attached(s, driver, all)
	fresh := false
	for _, a := range v.attach {
		if a.driver == driver && !all[a] {
			all[a], fresh = true, true
		}
	}
	return fresh && len(all) > most
}

// attached adds the driver's volumes that the node's pods use, and those that are attached there though no pod tells why:
// what is not detached yet takes a place as well.
func (x *volumeIndex) attached(s *nodeInfo, driver string, all map[attachment]bool) {
	for _, t := range s.pods {
		for _, name := range core.ClaimNames(t.pod) {
			if a, ok := x.attachmentOf(t.pod.Namespace, name); ok && a.driver == driver {
				all[a] = true
			}
		}
	}
	for _, a := range x.attachments()[s.name] {
		if a.driver == driver {
			all[a] = true
		}
	}
}

// attachments lists what is attached by VolumeAttachments, by node.
func (x *volumeIndex) attachments() map[string][]attachment {
	if x.attachedOn != nil {
		return x.attachedOn
	}
	x.attachedOn = map[string][]attachment{}
	for _, va := range resource.List(x.st.read, kinds.VolumeAttachments, "") {
		if va.Spec.Source.PersistentVolumeName == nil {
			continue
		}
		pv := resource.Get(x.st.read, kinds.PersistentVolumes, "", *va.Spec.Source.PersistentVolumeName)
		if pv != nil && pv.Spec.CSI != nil {
			x.attachedOn[va.Spec.NodeName] = append(x.attachedOn[va.Spec.NodeName], attachment{pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle})
		}
	}
	return x.attachedOn
}

// room says whether the driver of a class has storage for a claim where the node is, if it tells at all (KEP-1472), and
// how much; nil: it does not tell.
func (w *waitingClaim) room(read resource.Reader, node *corev1.Node) (bool, *apiresource.Quantity) {
	if free, told := localvolume.FreeOn(node); told && w.class.Provisioner == localvolume.Provisioner {
		left, want := apiresource.NewQuantity(free, apiresource.BinarySI), w.wants()
		return left.Cmp(want) >= 0, left
	}
	d := resource.Get(read, kinds.CSIDrivers, "", w.class.Provisioner)
	if d == nil || d.Spec.StorageCapacity == nil || !*d.Spec.StorageCapacity {
		return true, nil
	}
	want := w.wants()
	for _, c := range resource.List(read, kinds.CSIStorageCapacities, "") {
		if c.StorageClassName != w.class.Name || !reaches(c, node) {
			continue
		}
		if most := c.MaximumVolumeSize; most != nil {
			if most.Cmp(want) >= 0 {
				return true, c.Capacity
			}
		} else if c.Capacity != nil && c.Capacity.Cmp(want) >= 0 {
			return true, c.Capacity
		}
	}
	return false, nil
}

func (w *waitingClaim) wants() apiresource.Quantity {
	return w.claim.Spec.Resources.Requests[corev1.ResourceStorage]
}

// reaches says whether the storage can be used from the node.
func reaches(c *storagev1.CSIStorageCapacity, node *corev1.Node) bool {
	if c.NodeTopology == nil {
		return false
	}
	sel, err := metav1.LabelSelectorAsSelector(c.NodeTopology)
	return err == nil && sel.Matches(labels.Set(node.Labels))
}
