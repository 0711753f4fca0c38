// Package rootdir makes the root directory of a node's agent: the kubelet's, /var/lib/kubelet.
//
//	pods/               volumes and files of pods
//	plugins/            sockets of CSI and DRA drivers, and the volumes that they stage
//	plugins_registry/   sockets at which they register
//	device-plugins/     sockets of device plugins
//	pod-resources/      the agent's own, for monitors of devices
//
// Drivers mount it under this very name and hand paths below it to the agent, and get such paths from it. What they mount there must
// reach the node and its containers, so it lies on a shared mount.
package rootdir

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// folders are the directories that drivers expect.
var folders = []string{"pods", "plugins", "plugins_registry", "device-plugins", "pod-resources"}

// Open makes the directory and holds it until release is called: two agents must not share one. former is the directory where pods of
// an earlier agent may lie: they are moved, and former becomes a link to the directory, by which others find it; "": nowhere. used is
// the directory to work in: former itself as long as its pods lie on another file system, for what a pod has mounted can't be moved
// there. Without root nothing is mounted, and drivers' mounts reach nobody.
func Open(dir, former string, log *slog.Logger) (used string, release func(), err error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", nil, fmt.Errorf("make the agent's directory: %w", err)
	}
	if release, err = hold(dir); err != nil {
		return "", nil, err
	}
	if used, err = settle(dir, former, log); err != nil {
		release()
		return "", nil, err
	}
	if used != dir {
		release() // of a directory that stays empty
		if release, err = hold(used); err != nil {
			return "", nil, err
		}
	}
	if err := prepare(used); err != nil {
		release()
		return "", nil, err
	}
	return used, release, nil
}

// settle moves the pods of an earlier agent to dir, and returns where they are.
func settle(dir, former string, log *slog.Logger) (used string, err error) {
	if former == "" {
		return dir, nil
	}
	err = adopt(dir, former)
	if errors.Is(err, unix.EXDEV) {
		log.Warn("pods of an earlier agent lie on another file system: the node works there until it was drained and started anew, and CSI "+
			"drivers find nothing until then", "there", former, "wanted", dir)
		return filepath.EvalSymlinks(former)
	}
	if err != nil {
		return "", fmt.Errorf("move the pods of an earlier agent from %s to %s: %w", former, dir, err)
	}
	return dir, nil
}

func prepare(dir string) error {
	for _, name := range folders {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o750); err != nil {
			return fmt.Errorf("make the agent's directory: %w", err)
		}
	}
	if os.Getuid() != 0 {
		return nil
	}
	if err := share(dir); err != nil {
		return fmt.Errorf("make %s a shared mount: %w", dir, err)
	}
	return nil
}

// ErrHeld says that another agent of this machine works in the directory.
var ErrHeld = errors.New("another node's agent on this machine works there")

// hold locks the directory, for as long as this process lives at most.
func hold(dir string) (release func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open the agent's directory: %w", err)
	}
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		f.Close()
		return nil, fmt.Errorf("use %s: %w; give this one a directory of its own with --root-dir", dir, ErrHeld)
	case err != nil:
		f.Close()
		return nil, fmt.Errorf("lock the agent's directory: %w", err)
	}
	return func() { f.Close() }, nil
}

// Held says whether an agent works in the directory.
func Held(dir string) bool {
	release, err := hold(dir)
	if err == nil {
		release()
	}
	return errors.Is(err, ErrHeld)
}

// Usual is the kubelet's root directory, and an agent's unless its settings name another.
const Usual = "/var/lib/kubelet"

// Remove removes what agents and drivers keep in the directory, and the directory if nothing else is in it. Nothing may be mounted there.
// Usual stays: nodes of named clusters have theirs mounted over it in namespaces of their own, and would lose that with it.
func Remove(dir string) error {
	for _, name := range folders {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("remove the agent's directory: %w", err)
		}
	}
	if dir != Usual {
		_ = os.Remove(dir) // fails if somebody else has files there
	}
	return nil
}

// adopt moves the pods below former into dir, and makes former a link to it. A second call finds it done, and goes on where one ended
// half way.
func adopt(dir, former string) error {
	at, err := filepath.EvalSymlinks(former)
	if errors.Is(err, os.ErrNotExist) {
		return link(dir, former)
	}
	if err != nil {
		return err
	}
	if same(at, dir) {
		return nil
	}
	if Held(at) {
		return ErrHeld
	}
	if err := unshare(at); err != nil {
		return err
	}
	pods, err := os.ReadDir(filepath.Join(at, "pods"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "pods"), 0o750); err != nil {
		return err
	}
	for _, p := range pods {
		to := filepath.Join(dir, "pods", p.Name())
		if _, err := os.Lstat(to); err == nil {
			return fmt.Errorf("both have the pod %s: remove one", p.Name())
		}
		if err := os.Rename(filepath.Join(at, "pods", p.Name()), to); err != nil {
			return err
		}
	}
	if info, err := os.Lstat(former); err == nil && info.IsDir() {
		_ = os.Remove(filepath.Join(former, "pods")) // empty, if it is there
		if err := os.Remove(former); errors.Is(err, unix.ENOTEMPTY) {
			if err := os.Rename(former, former+".before"); err != nil {
				return err
			}
		}
	}
	return link(dir, former)
}

func link(dir, former string) error {
	if err := os.MkdirAll(filepath.Dir(former), 0o755); err != nil {
		return err
	}
	if err := os.Remove(former); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Symlink(dir, former)
}

// same says whether two paths are one directory.
func same(a, b string) bool {
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}
