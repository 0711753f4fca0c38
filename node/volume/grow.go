package volume

import (
	"context"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/localvolume"
	"github.com/kloop-dev/kloop/node/csi"
	"github.com/kloop-dev/kloop/node/tool"
	"github.com/kloop-dev/kloop/resource"
)

const provisionedBy = "pv.kubernetes.io/provisioned-by"

// growLocal has the claim of a local volume follow what its PersistentVolume became, and the file system on a device, too: somebody made
// the device larger, and said so there. more: the claim asks for more than that.
func (m *Mounter) growLocal(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (more bool, err error) {
	pvc, pv, err := m.bound(ctx, pod, v.Name, core.ClaimName(pod, v))
	if err != nil || pv.Spec.Local == nil || ReadOnly(v) || pv.Annotations[provisionedBy] == localvolume.Provisioner {
		return false, err // of kloop's own volumes another loop takes care
	}
	size, have := pv.Spec.Capacity[corev1.ResourceStorage], pvc.Status.Capacity[corev1.ResourceStorage]
	if size.Cmp(have) <= 0 {
		asked := pvc.Spec.Resources.Requests[corev1.ResourceStorage]
		return asked.Cmp(have) > 0, nil
	}
	if err = m.enlarge(ctx, pod, pv); err == nil {
		next := resource.Clone(pvc)
		csi.Grown(&next.Status, size)
		_, err = m.cfg.Client.Update(ctx, kinds.PersistentVolumeClaims, next, "status")
	}
	switch {
	case apierrors.IsConflict(err): // somebody else wrote: look again
		return true, nil
	case m.cfg.Events == nil:
	case err == nil:
		m.cfg.Events.Event(kinds.Pods, pod, corev1.EventTypeNormal, "FileSystemResizeSuccessful",
			"MountVolume.NodeExpandVolume succeeded for volume %q %s", pv.Name, m.cfg.Node)
	default:
		m.cfg.Events.Event(kinds.Pods, pod, corev1.EventTypeWarning, "VolumeResizeFailed", "NodeExpandVolume failed for volume %q: %v",
			pv.Name, err)
	}
	return err != nil, err
}

// enlarge makes the file system on a device as large as that.
func (m *Mounter) enlarge(ctx context.Context, pod *corev1.Pod, pv *corev1.PersistentVolume) error {
	device, err := device(pv.Spec.Local.Path)
	if err != nil || pv.Spec.VolumeMode != nil && *pv.Spec.VolumeMode == corev1.PersistentVolumeBlock {
		return nil //nolint:nilerr // a directory, or a device whose bytes are the pod's
	}
	form, err := formatOf(ctx, device)
	if err != nil {
		return err
	}
	dir := filepath.Join(m.volumesDir(pod.UID), localPlugin, pv.Name)
	grow := []string{"resize2fs", device}
	switch form {
	case "ext3", "ext4":
	case "xfs":
		grow = []string{"xfs_growfs", dir}
	case "btrfs":
		grow = []string{"btrfs", "filesystem", "resize", "max", dir}
	default:
		return fmt.Errorf("a file system of type %q can't be enlarged", form)
	}
	return tool.Do(ctx, grow[0], grow[1:]...)
}
