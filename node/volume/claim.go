package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/localvolume"
	"github.com/kloop-dev/kloop/node/csi"
	"github.com/kloop-dev/kloop/resource"
)

// bindCompleted stands on a claim that has its volume: its phase follows. The scheduler goes by it.
const bindCompleted = "pv.kubernetes.io/bind-completed"

// protected is the finalizer of claims that pods use: one without it may go at any time.
const protected = "kubernetes.io/pvc-protection"

// claim finds the directory behind a claim. Volumes of other types than these can't be had.
func (m *Mounter) claim(ctx context.Context, pod *corev1.Pod, volume, name string) (string, error) {
	pvc, pv, err := m.bound(ctx, pod, volume, name)
	if err != nil {
		return "", err
	}
	s := m.state(pod.UID)
	m.mu.Lock()
	s.plugins[volume] = core.VolumePlugin(pv)
	m.mu.Unlock()
	block, err := blockMode(pod, volume, pv)
	if err != nil {
		return "", err
	}
	path, err := m.mountClaimed(ctx, pod, volume, pvc, pv, block)
	if err != nil {
		return "", claimed{pv.Name, block, err}
	}
	return path, nil
}

// mountClaimed finds the directory of a claim's volume, or the device that it is.
func (m *Mounter) mountClaimed(ctx context.Context, pod *corev1.Pod, volume string, pvc *corev1.PersistentVolumeClaim,
	pv *corev1.PersistentVolume, block bool) (string, error) {
	if err := m.reachable(ctx, pod, volume, pv); err != nil {
		return "", err
	}
	m.Labels.keep(pod.UID, volume, pv.Spec.Local == nil || readOnly(pod, volume))
	switch {
	case pv.Spec.CSI != nil:
		return m.driven(ctx, &csi.Request{Pod: pod, Name: volume, PV: pv, Claim: pvc, Block: block, ReadOnly: readOnly(pod, volume),
			Group: fsGroup(pod)})
	case pv.Spec.HostPath != nil && block:
		return device(pv.Spec.HostPath.Path)
	case pv.Spec.HostPath != nil:
		return pv.Spec.HostPath.Path, checkHostPath(pv.Spec.HostPath)
	case pv.Spec.Local != nil && block:
		return device(pv.Spec.Local.Path)
	case pv.Spec.Local != nil:
		if err := shown(pv); err != nil {
			return "", err
		}
		return m.localPath(ctx, pod, volume, pv)
	case pv.Spec.NFS != nil:
		dir := filepath.Join(m.volumesDir(pod.UID), nfsPlugin, pv.Name)
		return m.nfs.mount(ctx, dir, pv.Spec.NFS, readOnly(pod, volume), pv.Spec.MountOptions)
	}
	return "", fmt.Errorf("persistentvolume %q: only CSI, hostPath, local and NFS volumes are supported yet", pv.Name)
}

// bound finds a claim of the pod, and the volume that it has.
func (m *Mounter) bound(ctx context.Context, pod *corev1.Pod, volume, name string) (*corev1.PersistentVolumeClaim,
	*corev1.PersistentVolume, error) {
	refuse := func(text string) error { return unprocessed{pod.Namespace, name, text} }
	pvc, err := read(ctx, m, kinds.PersistentVolumeClaims, pod.Namespace, name)
	switch {
	case absent(err, new(true)) && ephemeral(pod, volume):
		return nil, nil, refuse(fmt.Sprintf("waiting for ephemeral volume controller to create the persistentvolumeclaim %q", name))
	case absent(err, new(true)):
		return nil, nil, refuse(fmt.Sprintf("failed to fetch PVC from API server: persistentvolumeclaims %q not found", name))
	case err != nil:
		return nil, nil, err
	}
	if pvc.DeletionTimestamp != nil && !slices.Contains(pvc.Finalizers, protected) && !ran(pod) {
		return nil, nil, refuse("PVC is being deleted")
	}
	if pvc.Spec.VolumeName == "" || pvc.Status.Phase != corev1.ClaimBound && pvc.Annotations[bindCompleted] == "" {
		return nil, nil, refuse("PVC is not bound")
	}
	if ephemeral(pod, volume) && !metav1.IsControlledBy(pvc, pod) { // else its namesake's data would be shown, and deleted with this pod
		return nil, nil, misused(fmt.Sprintf("PVC %s/%s was not created for pod %s/%s (pod is not owner)", pvc.Namespace, name, pod.Namespace,
			pod.Name))
	}
	pv, err := read(ctx, m, kinds.PersistentVolumes, "", pvc.Spec.VolumeName)
	if err != nil {
		return nil, nil, err
	}
	if ref := pv.Spec.ClaimRef; ref == nil || ref.UID != pvc.UID {
		return nil, nil, fmt.Errorf("persistentvolume %q is not bound to claim %q", pv.Name, name)
	}
	return pvc, pv, nil
}

// reachable refuses a volume that can't be had from this node: at its path there may be something else. A pod that has it keeps it,
// whatever becomes of the node's labels.
func (m *Mounter) reachable(ctx context.Context, pod *corev1.Pod, volume string, pv *corev1.PersistentVolume) error {
	s := m.state(pod.UID)
	m.mu.Lock()
	known := s.reached[volume]
	m.mu.Unlock()
	if known || pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return nil
	}
	terms, err := nodeaffinity.NewNodeSelector(pv.Spec.NodeAffinity.Required)
	if err != nil {
		return fmt.Errorf("read the node affinity of persistentvolume %q: %w", pv.Name, err)
	}
	n, err := read(ctx, m, kinds.Nodes, "", m.cfg.Node)
	if err != nil {
		return err
	}
	if !terms.Match(n) {
		return &csi.StepError{Step: stepAffinity, Err: errors.New("no matching NodeSelectorTerms")}
	}
	m.mu.Lock()
	s.reached[volume] = true
	m.mu.Unlock()
	return nil
}

// ephemeral says that the pod's volume is a claim of the pod's own.
func ephemeral(pod *corev1.Pod, volume string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == volume && v.Ephemeral != nil })
}

// blockMode says whether the volume is a block device. The pod's containers must use it as what it is.
func blockMode(pod *corev1.Pod, name string, pv *corev1.PersistentVolume) (bool, error) {
	block := pv.Spec.VolumeMode != nil && *pv.Spec.VolumeMode == corev1.PersistentVolumeBlock
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for _, m := range list[i].VolumeMounts {
				if m.Name == name && block {
					return false, misused("volume " + name + " has volumeMode Block, but is specified in volumeMounts")
				}
			}
			for _, d := range list[i].VolumeDevices {
				if d.Name == name && !block {
					return false, misused("volume " + name + " has volumeMode Filesystem, but is specified in volumeDevices")
				}
			}
		}
	}
	return block, nil
}

// device finds the block device that a path names.
func device(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", &csi.StepError{Step: stepLinks, Err: err}
	}
	info, err := os.Stat(real)
	if err != nil {
		return "", fmt.Errorf("look at the block volume: %w", err)
	}
	if !isHostType(corev1.HostPathBlockDev, info.Mode()) {
		return "", fmt.Errorf("%s is not a block device", path)
	}
	return real, nil
}

// shown refuses a volume whose image is not mounted: what a pod wrote into the directory beneath would be hidden, and have no limit.
func shown(pv *corev1.PersistentVolume) error {
	if !localvolume.Image(pv.Annotations[localvolume.Form]) {
		return nil
	}
	switch here, _, err := Mounted(pv.Spec.Local.Path); {
	case err != nil:
		return fmt.Errorf("look at the local volume: %w", err)
	case !here:
		return fmt.Errorf("the image of the local volume %s is not mounted: the log of the node's agent says why", pv.Name)
	}
	return nil
}

// localPath finds the directory of a local volume, which may be on a device of its own, for the pod's group.
func (m *Mounter) localPath(ctx context.Context, pod *corev1.Pod, volume string, pv *corev1.PersistentVolume) (string, error) {
	path := pv.Spec.Local.Path
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", &csi.StepError{Step: stepBegin, Err: fmt.Errorf("path %q does not exist", path)}
	} else if err != nil {
		return "", fmt.Errorf("look at the local volume: %w", err)
	}
	block := isHostType(corev1.HostPathBlockDev, info.Mode())
	if !block && !info.IsDir() {
		return "", &csi.StepError{Step: stepBegin, Err: errors.New("only directory and block device are supported")}
	}
	shared, err := m.local.take(ctx, pod.UID, pv.Name, func(dir string) (err error) {
		if block {
			path, err = dir, m.local.onDevice(ctx, dir, pv)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	return path, m.giveLocal(pod, volume, path, pv, shared)
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
