package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/node/tool"
)

// localPlugin is the name of local volumes in paths.
const localPlugin = "kubernetes.io~local-volume"

// localMounts are the local volumes of a node. Calls for one volume come one after the other: devices are checked, formatted, mounted and
// let go of, which may take hours. Others do not wait for that.
type localMounts struct {
	dir string // of the agent

	mu   sync.Mutex
	busy map[string]chan struct{} // volumes that somebody works on; closed when he is done
}

// lock waits until nobody else works on a volume.
func (l *localMounts) lock(ctx context.Context, pv string) (unlock func(), err error) {
	for {
		unlock, other := l.tryLock(pv)
		if unlock != nil {
			return unlock, nil
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for other work on the local volume %s: %w", pv, ctx.Err())
		}
	}
}

// tryLock returns what somebody else's work ends with, if there is any.
func (l *localMounts) tryLock(pv string) (unlock func(), other <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if other := l.busy[pv]; other != nil {
		return nil, other
	}
	done := make(chan struct{})
	l.busy[pv] = done
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.busy, pv)
		close(done)
	}, nil
}

// shared is the directory on which a local block device is mounted, once for all pods that use it.
//
//	DIR/plugins/kubernetes.io/local-volume/mounts/PV    its file system
//	DIR/pods/UID/volumes/kubernetes.io~local-volume/PV  the same for a pod
//
// A pod's directory is made first and goes first, also where the volume is a directory: by it one sees which pods use the volume.
func (l *localMounts) shared(pv string) string {
	return filepath.Join(l.dir, "plugins/kubernetes.io/local-volume/mounts", pv)
}

// ofPod is the directory of a volume in a pod's.
func (l *localMounts) ofPod(uid, pv string) string {
	return filepath.Join(l.dir, "pods", uid, "volumes", localPlugin, pv)
}

// take notes that a pod uses a local volume, and has it mounted on the pod's directory. shared: other pods use it, too.
func (l *localMounts) take(ctx context.Context, uid types.UID, pv string, mount func(dir string) error) (shared bool, err error) {
	dir := l.ofPod(string(uid), pv)
	if shared, err = l.note(uid, pv, dir); err != nil {
		return false, err
	}
	unlock, err := l.lock(ctx, pv) // after it is noted: from then on nobody lets go of the volume
	if err != nil {
		return false, err
	}
	defer unlock()
	return shared, mount(dir)
}

func (l *localMounts) note(uid types.UID, pv, dir string) (shared bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	users, err := l.users()
	if err != nil {
		return false, err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return false, fmt.Errorf("make the directory: %w", err)
	}
	return slices.ContainsFunc(users[pv], func(u types.UID) bool { return u != uid }), nil
}

// onDevice mounts a local volume that is a block device with a file system.
func (l *localMounts) onDevice(ctx context.Context, dir string, pv *corev1.PersistentVolume) error {
	shared := l.shared(pv.Name)
	if here, err := mountPoint(dir); err != nil || here {
		return err
	}
	if err := os.MkdirAll(shared, 0o750); err != nil {
		return fmt.Errorf("make the directory: %w", err)
	}
	here, err := mountPoint(shared)
	if err == nil && !here {
		err = mountDevice(ctx, pv, shared)
	}
	if err != nil {
		return err
	}
	if err := unix.Mount(shared, dir, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s for the pod: %w", shared, err)
	}
	return nil
}

// users are the pods that use local volumes, by volume.
func (l *localMounts) users() (map[string][]types.UID, error) {
	pods, err := os.ReadDir(filepath.Join(l.dir, "pods"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("look for users of local volumes: %w", err)
	}
	users := map[string][]types.UID{}
	for _, p := range pods {
		names, err := os.ReadDir(l.ofPod(p.Name(), ""))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("look for users of local volumes: %w", err)
		}
		for _, n := range names {
			users[n.Name()] = append(users[n.Name()], types.UID(p.Name()))
		}
	}
	return users, nil
}

// letGo unmounts the local block devices that no pod uses. One that somebody works on has a user, or is let go of.
func (l *localMounts) letGo() error {
	list, err := os.ReadDir(l.shared(""))
	if errors.Is(err, os.ErrNotExist) || len(list) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for local volumes: %w", err)
	}
	var errs []error
	for _, e := range list {
		if unlock, _ := l.tryLock(e.Name()); unlock != nil {
			errs = append(errs, l.letGoOf(e.Name()))
			unlock()
		}
	}
	return errors.Join(errs...)
}

// letGoOf unmounts a local block device, unless a pod uses it.
func (l *localMounts) letGoOf(pv string) error {
	l.mu.Lock()
	used, err := l.users()
	l.mu.Unlock()
	if err != nil || len(used[pv]) > 0 {
		return err
	}
	dir := l.shared(pv)
	if err := unix.Unmount(dir, unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) { // an empty directory
		return fmt.Errorf("remove what was mounted on: %w", err)
	}
	return nil
}

// mountDevice mounts the file system of a device. It makes one only where the device has nothing that anybody knows, and mends one that
// was not unmounted.
func mountDevice(ctx context.Context, pv *corev1.PersistentVolume, dir string) error {
	device, err := device(pv.Spec.Local.Path)
	if err != nil {
		return err
	}
	has, err := formatOf(ctx, device)
	if err != nil {
		return err
	}
	form := has
	switch want := pv.Spec.Local.FSType; {
	case want != nil && *want != "":
		form = *want
	case has == "":
		form = "ext4"
	}
	switch {
	case strings.Trim(form, "abcdefghijklmnopqrstuvwxyz0123456789_") != "":
		return fmt.Errorf("%q is no name of a file system", form)
	case has != "" && has != form:
		return fmt.Errorf("failed to mount the volume as %q; %s already contains %s, which is left as it is", form, device, has)
	case has == "":
		err = makeOn(ctx, device, form)
	default:
		err = check(ctx, device)
	}
	if err != nil {
		return err
	}
	options := strings.Join(append([]string{"defaults"}, pv.Spec.MountOptions...), ",")
	err = tool.Do(ctx, "mount", "-t", form, "-o", options, device, dir)
	return err
}

// formatOf tells what is on a device: "" if nothing that blkid knows.
func formatOf(ctx context.Context, device string) (string, error) {
	f, err := os.Open(device)
	if err != nil { // blkid would call it empty
		return "", fmt.Errorf("look what is on the device: %w", err)
	}
	defer f.Close()
	if _, err := f.Read(make([]byte, 512)); err != nil {
		return "", fmt.Errorf("look what is on the device: %w", err)
	}
	out, code, err := tool.Run(ctx, "blkid", "-p", "-s", "TYPE", "-s", "PTTYPE", "-o", "export", device)
	if code == 2 {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look what is on the device: %w", err)
	}
	return formatIn(out), nil
}

// formatIn finds the file system in blkid's output. Where there is something else, as a partition table, it returns a text that names none.
func formatIn(out string) string {
	for line := range strings.Lines(out) {
		if form, ok := strings.CutPrefix(strings.TrimSpace(line), "TYPE="); ok && form != "" {
			return form
		}
	}
	return "unknown data, probably partitions"
}

// makeOn makes a file system on an empty device.
func makeOn(ctx context.Context, device, form string) error {
	args := []string{device}
	switch form {
	case "ext3", "ext4":
		args = []string{"-F", "-m0", device}
	case "xfs":
		args = []string{"-f", device}
	}
	err := tool.Do(ctx, "mkfs."+form, args...)
	return err
}

// check mends the file system of a device, as far as that can be done without asking.
func check(ctx context.Context, device string) error {
	const left = 4 // by fsck: errors that it could not mend
	out, code, _ := tool.Run(ctx, "fsck", "-a", device)
	if code == left {
		return fmt.Errorf("'fsck' found errors on device %s but could not correct them: %s", device, out)
	}
	return ctx.Err() // without fsck the mount tells
}
