package csi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Request asks for a volume of a pod.
type Request struct {
	Pod      *corev1.Pod
	Name     string                        // of the pod's volume
	PV       *corev1.PersistentVolume      // nil: Inline says what it is
	Claim    *corev1.PersistentVolumeClaim // bound to PV
	Inline   *corev1.CSIVolumeSource
	Block    bool   // it is used as a device
	ReadOnly bool   // no container may write
	Group    *int64 // that files shall belong to; nil: none
	// Labels of SELinux that the volume's files have for the pod's containers; none: they do not say.
	Labels    []string
	Recursive bool // their runtime writes the label into each file
}

// id is the volume's name to its driver.
func (r *Request) id() volumeID {
	if r.PV != nil {
		return volumeID{r.PV.Spec.CSI.Driver, r.PV.Spec.CSI.VolumeHandle}
	}
	sum := sha256.Sum256([]byte(string(r.Pod.UID) + r.Name))
	return volumeID{r.Inline.Driver, fmt.Sprintf("csi-%x", sum)}
}

// name is that of its directory.
func (r *Request) name() string {
	if r.PV != nil {
		return r.PV.Name
	}
	return r.Name
}

// Mounted is a volume that can be used.
type Mounted struct {
	Path string // directory or device
	Own  bool   // its files are to be given to the group, for the driver did not
	// Labelled says that its files have the label that the pod needs.
	Labelled bool
}

// a job is one volume of one pod that is being mounted.
type job struct {
	*Request
	v       volumeID
	d       *driver
	about   *storagev1.CSIDriver
	context map[string]string // of the attacher
	staging string            // "": the driver stages nothing
	target  string
	label   label
}

// Mount mounts the volume for its pod, or finds it mounted. An error that IsWaiting says what has to come first; after any other it may
// be mounted, and Unmount takes it down.
func (m *Mounter) Mount(ctx context.Context, r *Request) (Mounted, error) {
	if s, ok := m.settled(r); ok {
		return s.Mounted, nil
	}
	j, err := m.job(ctx, r)
	if err != nil {
		return Mounted{}, err
	}
	if err := j.ask(m); err != nil {
		return Mounted{}, err
	}
	unlock, err := m.lock(ctx, j.v)
	if err != nil {
		return Mounted{}, err
	}
	defer unlock()
	if err := cmp.Or(j.remains(m), m.alone(j)); err != nil {
		return Mounted{}, err
	}
	if j.attaches() {
		if j.context, err = m.attached(ctx, j.v); err != nil {
			return Mounted{}, m.overfull(ctx, j, err)
		}
	}
	if err := m.stage(ctx, j); err != nil {
		return Mounted{}, err
	}
	if err := m.publish(ctx, j); err != nil {
		return Mounted{}, err
	}
	m.grow(ctx, j)
	s := settled{Mounted: Mounted{Path: j.target, Own: j.owns(), Labelled: j.label.text != ""}, again: time.Now().Add(republishEvery)}
	m.settle(r, s)
	return s.Mounted, nil
}

// job finds out what the volume takes.
func (m *Mounter) job(ctx context.Context, r *Request) (*job, error) {
	j := &job{Request: r, v: r.id()}
	var err error
	if j.d, err = m.Drivers.get(j.v.driver); err != nil {
		return nil, r.absent()
	}
	if j.about, err = m.description(ctx, j.v.driver); err != nil {
		return nil, err
	}
	stages := j.d.does(csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME)
	switch {
	case r.PV == nil && (j.about == nil || !slices.Contains(j.about.Spec.VolumeLifecycleModes, storagev1.VolumeLifecycleEphemeral)):
		return nil, fmt.Errorf("the driver %s takes no volumes that a pod defines itself: its CSIDriver does not name the mode %s",
			j.v.driver, ephemeral)
	case r.Block:
		j.target = m.blockDir("publish", r.PV.Name, string(r.Pod.UID))
		if stages {
			j.staging = m.blockDir("staging", r.PV.Name)
		}
	default:
		j.target = filepath.Join(m.mountDir(r.Pod.UID, r.name()), "mount")
		if stages && r.PV != nil {
			j.staging = filepath.Join(m.stageDir(j.v), "globalmount")
		}
	}
	j.label, err = j.labelled(m)
	return j, err
}

// attaches says that the volume must be attached first: unless its driver says otherwise.
func (j *job) attaches() bool {
	return j.PV != nil && (j.about == nil || j.about.Spec.AttachRequired == nil || *j.about.Spec.AttachRequired)
}

// owns says that the agent gives the files to the pod's group, as the driver's policy has it (KEP-1682).
func (j *job) owns() bool {
	if j.Group == nil || j.ReadOnly || j.Block || j.d.does(csi.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP) {
		return false
	}
	policy := storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy
	if j.about != nil && j.about.Spec.FSGroupPolicy != nil {
		policy = *j.about.Spec.FSGroupPolicy
	}
	switch policy {
	case storagev1.NoneFSGroupPolicy:
		return false
	case storagev1.FileFSGroupPolicy:
		return true
	}
	once := func(a corev1.PersistentVolumeAccessMode) bool {
		return a == corev1.ReadWriteOnce || a == corev1.ReadWriteOncePod
	}
	return j.fsType() != "" && (j.PV == nil || slices.ContainsFunc(j.PV.Spec.AccessModes, once))
}

// alone refuses a volume for one pod that another has.
func (m *Mounter) alone(j *job) error {
	if j.PV == nil || len(j.PV.Spec.AccessModes) != 1 || j.PV.Spec.AccessModes[0] != corev1.ReadWriteOncePod {
		return nil
	}
	users, err := m.users(j.v, j.PV.Name)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(users, func(uid types.UID) bool { return uid != j.Pod.UID }) {
		return Wait("volume uses the ReadWriteOncePod access mode and is already in use by another pod")
	}
	return nil
}

// stage has the driver make the volume ready for the node, once for all pods. Inline volumes have no such step.
func (m *Mounter) stage(ctx context.Context, j *job) error {
	if j.PV == nil {
		return nil
	}
	dir := m.stageDir(j.v)
	if j.Block {
		dir = m.blockDir(j.PV.Name, "data")
	}
	m.files.Lock()
	fresh, err := write(dir, data{Driver: j.v.driver, Handle: j.v.handle, Label: j.label.text})
	m.files.Unlock()
	if err != nil || j.staging == "" || m.isStaged(j.v) {
		return err
	}
	if err := os.MkdirAll(j.staging, 0o750); err != nil {
		return fmt.Errorf("make the staging directory: %w", err)
	}
	secrets, err := m.secret(ctx, "NodeStageSecretRef", j.PV.Spec.CSI.NodeStageSecretRef)
	if err != nil {
		return j.step("MountVolume.MountDevice", "MapVolume.SetUpDevice", err)
	}
	call, stop := m.Drivers.limit(ctx)
	defer stop()
	_, err = j.d.node.NodeStageVolume(call, &csi.NodeStageVolumeRequest{VolumeId: j.v.handle, PublishContext: j.context,
		StagingTargetPath: j.staging, VolumeCapability: j.mounting(), Secrets: secrets, VolumeContext: j.PV.Spec.CSI.VolumeAttributes})
	if err != nil {
		if fresh && final(err) && !mounted(j.staging) {
			_ = m.forgetDevice(j.v, j.blockName()) // else Sweep does so
		}
		return j.step("MountVolume.MountDevice", "MapVolume.SetUpDevice", failed("", err))
	}
	m.setStaged(j.v, true)
	return nil
}

// blockName is the PersistentVolume's name if it is a block device.
func (j *job) blockName() string {
	if j.Block {
		return j.PV.Name
	}
	return ""
}

// publish has the driver mount the volume for the pod.
func (m *Mounter) publish(ctx context.Context, j *job) error {
	fresh, err := m.record(j)
	if err != nil {
		return err
	}
	req := &csi.NodePublishVolumeRequest{VolumeId: j.v.handle, PublishContext: j.context, StagingTargetPath: j.staging, TargetPath: j.target,
		VolumeCapability: j.mounting(), Readonly: j.ReadOnly}
	ref := &corev1.SecretReference{}
	if j.PV != nil {
		req.VolumeContext, ref = j.PV.Spec.CSI.VolumeAttributes, j.PV.Spec.CSI.NodePublishSecretRef
		req.Readonly = j.ReadOnly || j.PV.Spec.CSI.ReadOnly
	} else {
		req.VolumeContext, req.Readonly = j.Inline.VolumeAttributes, j.ReadOnly || is(j.Inline.ReadOnly)
		if j.Inline.NodePublishSecretRef != nil {
			ref = &corev1.SecretReference{Namespace: j.Pod.Namespace, Name: j.Inline.NodePublishSecretRef.Name}
		}
	}
	if req.Secrets, err = m.secret(ctx, "NodePublishSecretRef", ref); err != nil {
		return err
	}
	if err := m.tell(ctx, j.Request, j.about, req); err != nil {
		return err
	}
	call, stop := m.Drivers.limit(ctx)
	defer stop()
	if _, err = j.d.node.NodePublishVolume(call, req); err != nil {
		if fresh && final(err) && !mounted(j.target) {
			m.unrecord(j)
		}
		return j.step("MountVolume.SetUp", "MapVolume.MapPodDevice", failed("", err))
	}
	if j.Block {
		return checkDevice(j.target)
	}
	return nil
}

func checkDevice(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("look at the block volume: %w", err)
	}
	if info.Mode()&os.ModeDevice == 0 {
		return fmt.Errorf("the driver published %s, which is no block device", path)
	}
	return nil
}

// record notes that the volume may be published for the pod from now on. fresh: it was not noted before.
func (m *Mounter) record(j *job) (fresh bool, err error) {
	if !j.Block {
		d := data{Driver: j.v.driver, Handle: j.v.handle, Node: m.cfg.Node, Spec: j.name(), Lifecycle: persistent,
			Label: j.label.text}
		if j.PV == nil {
			d.Lifecycle = ephemeral
		}
		if j.attaches() {
			d.Attachment = attachmentName(j.v, m.cfg.Node)
		}
		return write(m.mountDir(j.Pod.UID, j.name()), d)
	}
	link := m.linkTo(j.Pod.UID, j.PV.Name)
	for _, dir := range []string{filepath.Dir(link), filepath.Dir(j.target)} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return false, fmt.Errorf("record the volume: %w", err)
		}
	}
	if _, err := os.Lstat(link); err == nil {
		return false, nil
	}
	return true, os.Symlink(j.target, link)
}

// unrecord forgets what a driver refused.
func (m *Mounter) unrecord(j *job) {
	var err error
	if j.Block {
		if err = remove(j.target); err == nil {
			err = remove(m.linkTo(j.Pod.UID, j.PV.Name))
		}
	} else {
		err = forget(m.mountDir(j.Pod.UID, j.name()), j.target)
	}
	if err != nil {
		m.log.Warn("forget a volume that the driver refused; it is unpublished with the pod", "volume", j.v.String(), "err", err)
	}
}
