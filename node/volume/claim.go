package volume

import (
	"context"
	"errors"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// bound stands on a claim that has its volume: its phase follows. The scheduler goes by it.
const bound = "pv.kubernetes.io/bind-completed"

// claim finds the directory behind a claim. Only volumes that are a path of this host can be had.
func (m *Mounter) claim(ctx context.Context, pod *corev1.Pod, src *corev1.PersistentVolumeClaimVolumeSource) (string, error) {
	pvc, err := read(ctx, m, kinds.PersistentVolumeClaims, pod.Namespace, src.ClaimName)
	if err != nil {
		return "", err
	}
	if pvc.Spec.VolumeName == "" || pvc.Status.Phase != corev1.ClaimBound && pvc.Annotations[bound] == "" {
		return "", fmt.Errorf("persistentvolumeclaim %q is not bound", src.ClaimName)
	}
	pv, err := read(ctx, m, kinds.PersistentVolumes, "", pvc.Spec.VolumeName)
	if err != nil {
		return "", err
	}
	if ref := pv.Spec.ClaimRef; ref == nil || ref.UID != pvc.UID {
		return "", fmt.Errorf("persistentvolume %q is not bound to claim %q", pv.Name, src.ClaimName)
	}
	if pv.Spec.VolumeMode != nil && *pv.Spec.VolumeMode == corev1.PersistentVolumeBlock {
		return "", errors.New("block volumes are not supported yet")
	}
	switch {
	case pv.Spec.HostPath != nil:
		return pv.Spec.HostPath.Path, checkHostPath(pv.Spec.HostPath)
	case pv.Spec.Local != nil:
		return pv.Spec.Local.Path, local(pv.Spec.Local.Path, fsGroup(pod))
	}
	return "", fmt.Errorf("persistentvolume %q: only hostPath and local volumes are supported yet", pv.Name)
}

func local(path string, group *int64) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("look at the local volume: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("local volume %s: only directories are supported yet", path)
	}
	if group == nil {
		return nil
	}
	if err := own(path, *group); err != nil {
		return fmt.Errorf("give the local volume to group %d: %w", *group, err)
	}
	return nil
}

// read finds an object. A missing one is an error in the kubelet's words.
func read[T resource.Object](ctx context.Context, m *Mounter, d *resource.Def[T], ns, name string) (T, error) {
	obj, err := client.Find(ctx, m.cfg.Client, d, ns, name)
	switch {
	case apierrors.IsNotFound(err):
		err = missing{fmt.Sprintf("%s %q not found", d.Info().Singular, name)}
	case err != nil:
		err = fmt.Errorf("read %s %q: %w", d.Info().Singular, name, err)
	}
	return obj, err
}

// missing is the error of an object that is not there.
type missing struct{ text string }

func (e missing) Error() string { return e.text }
