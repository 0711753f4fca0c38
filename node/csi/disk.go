package csi

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/internal/atomicfile"
)

// dataFile records a volume that may be mounted.
const dataFile = "vol_data.json"

// data are the file's contents, as the kubelet writes them.
type data struct {
	Driver     string `json:"driverName"`
	Handle     string `json:"volumeHandle"`
	Node       string `json:"nodeName,omitempty"`
	Spec       string `json:"specVolID,omitempty"` // name of the PersistentVolume, or of the pod's volume
	Attachment string `json:"attachmentID,omitempty"`
	Lifecycle  string `json:"volumeLifecycleMode,omitempty"` // Persistent or Ephemeral
	Label      string `json:"seLinuxMountContext,omitempty"` // that it is mounted with
}

func (d data) id() volumeID { return volumeID{d.Driver, d.Handle} }

// The two lifecycles.
const (
	persistent = "Persistent"
	ephemeral  = "Ephemeral"
)

// A layout is the agent's root directory, and the places of volumes in it.
type layout string

func (l layout) csiDir() string { return filepath.Join(string(l), "plugins/kubernetes.io/csi") }

// stageDir holds a staged file system and its file.
func (l layout) stageDir(v volumeID) string {
	return filepath.Join(l.csiDir(), v.driver, fmt.Sprintf("%x", sha256.Sum256([]byte(v.handle))))
}

// mountDir holds a published file system and its file.
func (l layout) mountDir(uid types.UID, name string) string {
	return filepath.Join(string(l), "pods", string(uid), "volumes/kubernetes.io~csi", name)
}

// linkTo is the record of a published block device.
func (l layout) linkTo(uid types.UID, pv string) string {
	return filepath.Join(string(l), "pods", string(uid), "volumeDevices/kubernetes.io~csi", pv)
}

func (l layout) blockDir(parts ...string) string {
	return filepath.Join(append([]string{l.csiDir(), "volumeDevices"}, parts...)...)
}

// write records the volume, whole or not at all. fresh: it was not recorded before.
func write(dir string, d data) (fresh bool, err error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return false, fmt.Errorf("record the volume: %w", err)
	}
	path := filepath.Join(dir, dataFile)
	if old, err := read(dir); err == nil && old == d {
		return false, nil
	}
	_, err = os.Lstat(path)
	fresh = errors.Is(err, os.ErrNotExist)
	text, err := json.Marshal(d)
	if err != nil {
		return fresh, err
	}
	if err := atomicfile.Write(path, text, 0o600); err != nil {
		return fresh, fmt.Errorf("record the volume: %w", err)
	}
	return fresh, nil
}

// read reads a directory's file.
func read(dir string) (d data, err error) {
	text, err := os.ReadFile(filepath.Join(dir, dataFile))
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return d, fmt.Errorf("read %s: %w", filepath.Join(dir, dataFile), err)
	}
	if d.Driver == "" || d.Handle == "" {
		return d, fmt.Errorf("read %s: it names no volume", filepath.Join(dir, dataFile))
	}
	return d, nil
}

// forget removes the directory of a volume that is not mounted any more: what the driver mounted on first, which must be empty, and
// the file last.
func forget(dir, target string) error {
	if target != "" {
		if err := remove(target); err != nil {
			return err
		}
	}
	for _, name := range []string{dataFile + ".new", dataFile, ""} {
		if err := remove(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// remove removes a file or an empty directory that need not be there; never what is in one, and never a mount.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove what the driver let go of: %w", err)
	}
	return nil
}

// mounted says whether something is mounted on the path, by where its file system begins: no table of mounts is read.
func mounted(path string) bool {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, 0, &st); err != nil {
		// A file system whose server is gone does not answer: it is mounted.
		return !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR)
	}
	return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// published lists what may be published for a pod.
func (l layout) published(uid types.UID) (files, blocks []string, err error) {
	for _, at := range []struct {
		path string
		to   *[]string
	}{{l.mountDir(uid, ""), &files}, {l.linkTo(uid, ""), &blocks}} {
		entries, err := os.ReadDir(at.path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, nil, fmt.Errorf("look for the pod's volumes: %w", err)
		}
		for _, e := range entries {
			*at.to = append(*at.to, e.Name())
		}
	}
	return files, blocks, nil
}

// Has says that something may be published for a pod.
func (l layout) Has(uid types.UID) bool {
	files, blocks, err := l.published(uid)
	return err != nil || len(files)+len(blocks) > 0
}

// users are the pods for which the volume may be published.
func (l layout) users(v volumeID, pv string) (list []types.UID, err error) {
	pods, err := os.ReadDir(filepath.Join(string(l), "pods"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("look for pods that use the volume: %w", err)
	}
	for _, p := range pods {
		uid := types.UID(p.Name())
		if _, err := os.Lstat(l.linkTo(uid, pv)); err == nil && pv != "" {
			list = append(list, uid)
			continue
		}
		names, _, err := l.published(uid)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			d, err := read(l.mountDir(uid, name))
			switch {
			case errors.Is(err, os.ErrNotExist):
			case err != nil:
				return nil, err // it may be this one
			case d.id() == v:
				list = append(list, uid)
			}
		}
	}
	return list, nil
}

// A device is a volume that may be staged.
type device struct {
	data
	block string // its PersistentVolume's name; "": it is a file system
}

// devices lists what may be staged on the node. What can't be read is an error, and not in the list.
func (l layout) devices() (list []device, err error) {
	for _, dir := range l.records() {
		d, rerr := read(dir)
		if rerr != nil {
			err = errors.Join(err, rerr)
			continue
		}
		list = append(list, device{data: d, block: l.blockAt(dir)})
	}
	return list, err
}

// records lists the directories of staged volumes.
func (l layout) records() (dirs []string) {
	for _, pattern := range []string{filepath.Join(l.csiDir(), "*", "*", dataFile), l.blockDir("*", "data", dataFile)} {
		paths, _ := filepath.Glob(pattern) // fails on bad patterns only
		for _, path := range paths {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	return dirs
}

// blockAt returns the PersistentVolume's name if the directory is a block device's.
func (l layout) blockAt(dir string) string {
	if filepath.Dir(filepath.Dir(dir)) == l.blockDir() {
		return filepath.Base(filepath.Dir(dir))
	}
	return ""
}
