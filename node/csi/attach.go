package csi

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// description is the CSIDriver of the name; nil: there is none, and it is as if it said nothing.
func (m *Mounter) description(ctx context.Context, name string) (*storagev1.CSIDriver, error) {
	d, err := client.Find(ctx, m.cfg.Client, kinds.CSIDrivers, "", name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the CSIDriver %s: %w", name, err)
	}
	return d, nil
}

// attachmentName is that of the volume's attachment to the node, as upstream makes it.
func attachmentName(v volumeID, node string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(v.handle+v.driver+node)))
}

// attached returns what the driver's attacher says of the volume, once it is attached to this node. First it makes sure that the Node
// says that the volume is in use: from then on nobody detaches it.
func (m *Mounter) attached(ctx context.Context, v volumeID) (map[string]string, error) {
	n, err := m.Report(ctx)
	if err != nil {
		return nil, fmt.Errorf("say that the volume is in use: %w", err)
	}
	if !slices.ContainsFunc(n.Status.VolumesAttached, func(a corev1.AttachedVolume) bool { return a.Name == v.unique() }) {
		if va, err := m.attachment(ctx, v); err == nil && va.Status.AttachError != nil {
			return nil, refused(va)
		}
		return nil, Wait(fmt.Sprintf("volume %s is not attached to this node yet: the attacher of %s has not answered", v.handle, v.driver))
	}
	va, err := m.attachment(ctx, v)
	if err != nil {
		return nil, err
	}
	if !va.Status.Attached {
		return nil, refused(va)
	}
	return va.Status.AttachmentMetadata, nil
}

func (m *Mounter) attachment(ctx context.Context, v volumeID) (*storagev1.VolumeAttachment, error) {
	obj, err := m.cfg.Client.Get(ctx, kinds.VolumeAttachments, "", attachmentName(v, m.cfg.Node))
	if err != nil {
		return nil, fmt.Errorf("read the VolumeAttachment of %s: %w", v.handle, err)
	}
	va := obj.(*storagev1.VolumeAttachment)
	if va.DeletionTimestamp != nil {
		return nil, Wait(fmt.Sprintf("volume %s is being detached from this node", v.handle))
	}
	return va, nil
}

// refused is the attacher's error.
func refused(va *storagev1.VolumeAttachment) error {
	if e := va.Status.AttachError; e != nil {
		return &Waiting{text: fmt.Sprintf("the attacher of %s could not attach the volume: %s", va.Spec.Attacher, e.Message),
			full: e.ErrorCode != nil && codes.Code(*e.ErrorCode) == codes.ResourceExhausted}
	}
	return Wait(fmt.Sprintf("the attacher of %s has not attached the volume yet", va.Spec.Attacher))
}

// InUse names the volumes that the node uses, or may use, of those that have to be attached. It is sorted.
func (m *Mounter) InUse() (list []corev1.UniqueVolumeName, err error) {
	devices, err := m.devices()
	for _, d := range devices { // of a driver that attaches nothing it does no harm
		list = append(list, d.id().unique())
	}
	m.mu.Lock()
	for v := range m.wanted {
		if m.attach[v] {
			list = append(list, v.unique())
		}
	}
	for v := range m.attach {
		if len(m.wanted[v]) == 0 {
			delete(m.attach, v)
		}
	}
	m.mu.Unlock()
	slices.Sort(list)
	return slices.Compact(list), err
}

// Report writes into the Node which volumes are in use, and returns the Node that says so. What can't be read on disk stays named.
func (m *Mounter) Report(ctx context.Context) (*corev1.Node, error) {
	for range tries {
		obj, err := m.cfg.Client.Get(ctx, kinds.Nodes, "", m.cfg.Node)
		if err != nil {
			return nil, fmt.Errorf("read the Node: %w", err)
		}
		n := obj.(*corev1.Node)
		list := m.Fill(n.Status.VolumesInUse)
		if slices.Equal(list, n.Status.VolumesInUse) {
			return n, nil
		}
		next := resource.Clone(n)
		next.Status.VolumesInUse = list
		obj, err = m.cfg.Client.Update(ctx, kinds.Nodes, next, "status")
		if err == nil {
			return obj.(*corev1.Node), nil
		}
		if !apierrors.IsConflict(err) {
			return nil, fmt.Errorf("write the Node's volumes in use: %w", err)
		}
	}
	return nil, errors.New("write the Node's volumes in use: it keeps changing")
}

// Fill returns the volumes in use for the Node's status, which names those of before.
func (m *Mounter) Fill(before []corev1.UniqueVolumeName) []corev1.UniqueVolumeName {
	list, err := m.InUse()
	if err != nil {
		m.log.Warn("look for the volumes in use; none is let go of", "err", err)
		list = append(list, before...)
		slices.Sort(list)
		list = slices.Compact(list)
	}
	return list
}
