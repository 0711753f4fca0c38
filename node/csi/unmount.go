package csi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
)

// Unmount takes down the volumes of a pod whose containers are gone, and unstages those that no other pod of the node uses. What it
// could not take down is an error, is left as it is, and taken down by another call; that a volume could not be unstaged is none: Sweep
// does so.
func (m *Mounter) Unmount(ctx context.Context, uid types.UID) error {
	files, blocks, err := m.published(uid)
	if err != nil {
		return err
	}
	left := map[volumeID]string{} // to the block device's PersistentVolume
	var errs []error
	for _, name := range files {
		v, err := m.unmountFiles(ctx, uid, name)
		if v != nil {
			left[*v] = ""
		}
		errs = append(errs, err)
	}
	for _, pv := range blocks {
		v, err := m.unmountBlock(ctx, uid, pv)
		if v != nil {
			left[*v] = pv
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, v := range m.unwant(uid) { // also what was staged and never published
		if _, ok := left[v]; !ok {
			left[v] = ""
		}
	}
	return m.releaseAll(ctx, left)
}

// releaseAll unstages volumes that no pod uses, and tells the Node that they are free.
func (m *Mounter) releaseAll(ctx context.Context, left map[volumeID]string) error {
	for v, block := range left {
		if err := m.release(ctx, v, block); err != nil && ctx.Err() == nil {
			m.log.Warn("unstage a volume; it is tried again", "volume", v.String(), "err", err)
		}
	}
	if len(left) > 0 {
		if _, err := m.Report(ctx); err != nil && ctx.Err() == nil {
			m.log.Warn("say which volumes are in use; it is tried again", "err", err)
		}
	}
	return nil
}

// unmountFiles unpublishes a file system.
func (m *Mounter) unmountFiles(ctx context.Context, uid types.UID, name string) (*volumeID, error) {
	dir := m.mountDir(uid, name)
	target := filepath.Join(dir, "mount")
	d, err := read(dir)
	if err != nil { // no driver was asked, or nobody can tell which
		if mounted(target) {
			m.log.Warn("a volume is mounted that no record tells of: it is unmounted without its driver", "path", target, "err", err)
			if err := unix.Unmount(target, unix.UMOUNT_NOFOLLOW); err != nil {
				return nil, fmt.Errorf("unmount %s: %w", target, err)
			}
		}
		return nil, forget(dir, target)
	}
	if err := m.unpublish(ctx, d.id(), target); err != nil {
		return nil, err
	}
	if err := forget(dir, target); err != nil {
		return nil, err
	}
	if d.Lifecycle == ephemeral {
		return nil, nil
	}
	v := d.id()
	return &v, nil
}

// unmountBlock unpublishes a block device.
func (m *Mounter) unmountBlock(ctx context.Context, uid types.UID, pv string) (*volumeID, error) {
	link, target := m.linkTo(uid, pv), m.blockDir("publish", pv, string(uid))
	d, err := read(m.blockDir(pv, "data"))
	switch {
	case errors.Is(err, os.ErrNotExist): // it is written before the link, and goes after it
		return nil, remove(link)
	case err != nil: // nobody can tell whose it is
		m.log.Warn("a block volume has no record that can be read: it is taken down without its driver", "path", target, "err", err)
		if mounted(target) {
			if err := unix.Unmount(target, unix.UMOUNT_NOFOLLOW); err != nil {
				return nil, fmt.Errorf("unmount %s: %w", target, err)
			}
		}
		return nil, errors.Join(remove(target), remove(link))
	}
	if err := m.unpublish(ctx, d.id(), target); err != nil {
		return nil, err
	}
	if err := errors.Join(remove(target), remove(link)); err != nil {
		return nil, err
	}
	_ = os.Remove(filepath.Dir(target)) // other pods may be in it
	v := d.id()
	return &v, nil
}

// unpublish has the driver take the volume from a pod.
func (m *Mounter) unpublish(ctx context.Context, v volumeID, target string) error {
	d, err := m.Drivers.get(v.driver)
	if err != nil {
		return fmt.Errorf("UnmountVolume.TearDown failed for volume %q: %w", v.handle, err)
	}
	unlock, err := m.lock(ctx, v)
	if err != nil {
		return err
	}
	defer unlock()
	call, stop := m.Drivers.limit(ctx)
	defer stop()
	_, err = d.node.NodeUnpublishVolume(call, &csi.NodeUnpublishVolumeRequest{VolumeId: v.handle, TargetPath: target})
	if err != nil && status.Code(err) != codes.NotFound {
		return failed(fmt.Sprintf("UnmountVolume.TearDown failed for volume %q", v.handle), err)
	}
	if mounted(target) {
		return fmt.Errorf("the driver %s says that it has unpublished %q, but %s is mounted", v.driver, v.handle, target)
	}
	return nil
}

// release unstages a volume that no pod uses and none has asked for.
func (m *Mounter) release(ctx context.Context, v volumeID, block string) error {
	unlock, err := m.lock(ctx, v)
	if err != nil {
		return err
	}
	defer unlock()
	if m.isWanted(v) {
		return nil
	}
	if block == "" {
		block = m.blockOf(v)
	}
	users, err := m.users(v, block)
	if err != nil || len(users) > 0 {
		return err
	}
	dir, staging := m.stageDir(v), filepath.Join(m.stageDir(v), "globalmount")
	if block != "" {
		dir, staging = m.blockDir(block, "data"), m.blockDir("staging", block)
	}
	if _, err := os.Lstat(filepath.Join(dir, dataFile)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	d, err := m.Drivers.get(v.driver)
	if err != nil {
		return err
	}
	if d.does(csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME) {
		call, stop := m.Drivers.limit(ctx)
		defer stop()
		m.setStaged(v, false) // whatever comes of it
		_, err := d.node.NodeUnstageVolume(call, &csi.NodeUnstageVolumeRequest{VolumeId: v.handle, StagingTargetPath: staging})
		if err != nil && status.Code(err) != codes.NotFound {
			return failed(fmt.Sprintf("UnmountDevice failed for volume %q", v.handle), err)
		}
	}
	if mounted(staging) {
		return fmt.Errorf("the driver %s says that it has unstaged %q, but %s is mounted", v.driver, v.handle, staging)
	}
	return m.forgetDevice(v, block)
}

// blockOf is the PersistentVolume of a volume that is recorded as a block device; "": it is none.
func (m *Mounter) blockOf(v volumeID) string {
	list, _ := m.devices() // what can't be read is not this one
	for _, d := range list {
		if d.id() == v {
			return d.block
		}
	}
	return ""
}

// forgetDevice removes the record of a volume that is not staged.
func (m *Mounter) forgetDevice(v volumeID, block string) error {
	if block == "" {
		return forget(m.stageDir(v), filepath.Join(m.stageDir(v), "globalmount"))
	}
	if err := remove(m.blockDir("staging", block)); err != nil {
		return err
	}
	if err := remove(m.blockDir("publish", block)); err != nil {
		return err
	}
	if err := forget(m.blockDir(block, "data"), ""); err != nil {
		return err
	}
	return remove(m.blockDir(block))
}

// Sweep unstages volumes that no pod of the node uses: what an agent that was killed had staged, and what could not be unstaged. All
// pods that use one must have been known to disk or Mount before.
func (m *Mounter) Sweep(ctx context.Context) error {
	m.sweepUnreadable()
	list, err := m.devices()
	left := map[volumeID]string{}
	for _, d := range list {
		if !m.isWanted(d.id()) {
			left[d.id()] = d.block
		}
	}
	if len(left) == 0 {
		return err
	}
	return errors.Join(err, m.releaseAll(ctx, left))
}

// sweepUnreadable forgets records that can't be read, where nothing is mounted: no driver could be asked, and they would keep the node's
// volumes in use for ever.
func (m *Mounter) sweepUnreadable() {
	m.files.Lock()
	defer m.files.Unlock()
	for _, dir := range m.records() {
		_, err := read(dir)
		if err == nil || errors.Is(err, os.ErrNotExist) {
			continue
		}
		block := m.blockAt(dir)
		staging := filepath.Join(dir, "globalmount")
		if block != "" {
			staging = m.blockDir("staging", block)
		}
		if mounted(staging) {
			m.log.Warn("a volume is staged that no record tells of: unmount it by hand", "path", staging, "err", err)
			continue
		}
		if block != "" {
			err = m.forgetDevice(volumeID{}, block)
		} else {
			err = forget(dir, staging)
		}
		m.log.Warn("a record of a volume could not be read, and is removed", "path", dir, "err", err)
	}
}
