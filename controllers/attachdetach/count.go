package attachdetach

import (
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// Count tells of each volume that is to be attached to a node, and of each that is, by its plugin; a volume may be both. The names of the
// states are those of upstream's metric attachdetach_controller_total_volumes.
func Count(read resource.Reader, add func(plugin, state string)) {
	for _, a := range resource.List(read, kinds.VolumeAttachments, "") {
		plugin := "kubernetes.io/csi:" + a.Spec.Attacher
		if a.DeletionTimestamp == nil {
			add(plugin, "desired_state_of_world")
		}
		if a.Status.Attached {
			add(plugin, "actual_state_of_world")
		}
	}
}
