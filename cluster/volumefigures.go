package cluster

import (
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

var (
	volumesInAll   = desc("pv_collector_total_pv_count", "Persistent volumes.", "plugin_name", "volume_mode")
	volumesBound   = desc("pv_collector_bound_pv_count", "Persistent volumes that claims have.", "storage_class")
	volumesUnbound = desc("pv_collector_unbound_pv_count", "Persistent volumes that no claim has.", "storage_class")
	claimsBound    = desc("pv_collector_bound_pvc_count", "Claims that have a volume.", "namespace", "storage_class",
		"volume_attributes_class")
	claimsUnbound = desc("pv_collector_unbound_pvc_count", "Claims that have no volume.", "namespace", "storage_class",
		"volume_attributes_class")
	volumesAttached = desc("attachdetach_controller_total_volumes", "Volumes that are to be attached to nodes, and that are.", "plugin_name",
		"state")
	labelsConflict = desc("selinux_warning_controller_selinux_volume_conflict",
		"Pods that want one volume with different labels of SELinux: 1.", "property", "pod1_namespace", "pod1_name", "pod1_value",
		"pod2_namespace", "pod2_name", "pod2_value")
	volumeDescs = []*prometheus.Desc{labelsConflict, volumesInAll, volumesBound, volumesUnbound, claimsBound, claimsUnbound, volumesAttached}
)

// A volumeSeries is one of the counts: of the figure, by as many labels as that has.
type volumeSeries struct {
	of     *prometheus.Desc
	labels [3]string
	n      int
}

// volumeCounts counts claims, volumes and their attachments as upstream's loops over them do; attached is kit.Kit.Attached.
func volumeCounts(read resource.Reader, attached func(resource.Reader, func(plugin, state string))) map[volumeSeries]float64 {
	counts := map[volumeSeries]float64{}
	add := func(is bool, yes, no *prometheus.Desc, labels ...string) {
		s := volumeSeries{of: no, n: len(labels)}
		if is {
			s.of = yes
		}
		copy(s.labels[:], labels)
		counts[s]++
	}
	for _, v := range resource.List(read, core.PersistentVolumes, "") {
		mode := corev1.PersistentVolumeFilesystem
		if v.Spec.VolumeMode != nil {
			mode = *v.Spec.VolumeMode
		}
		add(true, volumesInAll, nil, core.VolumePlugin(v), string(mode))
		add(v.Status.Phase == corev1.VolumeBound, volumesBound, volumesUnbound, v.Spec.StorageClassName)
	}
	for _, c := range resource.List(read, core.PersistentVolumeClaims, "") {
		attributes := ""
		if name := c.Spec.VolumeAttributesClassName; name != nil {
			attributes = *name
		}
		add(c.Status.Phase == corev1.ClaimBound, claimsBound, claimsUnbound, c.Namespace, core.ClaimClass(c), attributes)
	}
	if attached != nil {
		attached(read, func(plugin, state string) { add(true, volumesAttached, nil, plugin, state) })
	}
	return counts
}
