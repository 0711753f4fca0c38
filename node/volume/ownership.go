package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/kinds"
)

// give gives a volume to the pod's group, once: as long as no container of the pod has run. Later only a root that is not as it should be
// tells that there is something to do, as with the policy OnRootMismatch.
func (m *Mounter) give(pod *corev1.Pod, volume, path string) error {
	group := fsGroup(pod)
	if group == nil || !m.begin(pod, volume) {
		return nil
	}
	policy := pod.Spec.SecurityContext.FSGroupChangePolicy
	all := !ran(pod) && (policy == nil || *policy != corev1.FSGroupChangeOnRootMismatch)
	refused, err := own(path, *group, all)
	if err != nil {
		return fmt.Errorf("give volume %q to group %d: %w", volume, *group, err)
	}
	if refused != nil {
		m.log.Warn("files of a volume can't be given to the pod's group", "object", "pod/"+pod.Namespace+"/"+pod.Name, "volume", volume,
			"group", *group, "err", refused)
	}
	m.given(pod.UID, volume)
	return nil
}

// begin says that the volume is still to be given to the pod's group.
func (m *Mounter) begin(pod *corev1.Pod, volume string) bool {
	s := m.state(pod.UID)
	m.mu.Lock()
	defer m.mu.Unlock()
	return !s.given[volume]
}

func (m *Mounter) given(uid types.UID, volume string) {
	s := m.state(uid)
	m.mu.Lock()
	defer m.mu.Unlock()
	s.given[volume] = true
}

// ran says that a container of the pod has been started: its volumes were whole then.
func ran(pod *corev1.Pod) bool {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			if list[i].ContainerID != "" {
				return true
			}
		}
	}
	return false
}

// giveLocal gives a local volume to the pod's group, unless others have it already: theirs it stays.
func (m *Mounter) giveLocal(pod *corev1.Pod, volume, path string, pv *corev1.PersistentVolume, shared bool) error {
	group := fsGroup(pod)
	if group == nil || readOnly(pod, volume) || !m.begin(pod, volume) {
		return nil
	}
	path, err := filepath.EvalSymlinks(path) // the files are not those of a link to them
	if err != nil {
		return fmt.Errorf("look at the local volume: %w", err)
	}
	if !shared {
		return m.give(pod, volume, path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("look at the local volume: %w", err)
	}
	if gid, _ := owner(info); gid != int(*group) && m.cfg.Events != nil {
		m.cfg.Events.Event(kinds.Pods, pod, corev1.EventTypeWarning, "AlreadyMountedVolume",
			"The requested fsGroup is %d, but the volume %s has GID %d. The volume may not be shareable.", *group, pv.Name, gid)
	}
	m.given(pod.UID, volume)
	return nil
}

// own gives everything below path to the group, as a volume that the pod writes to needs it; unless all, only if its root is not as it
// should be. What can't be given stays as it is, as with Kubernetes' agent, since a server of files may refuse that to everybody; refused
// has the first of it and says how many there are.
func own(path string, group int64, all bool) (refused, err error) {
	const write, dir = 0o660, 0o770 | fs.ModeSetgid
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if gid, _ := owner(info); !all && info.Mode()&dir == dir && gid == int(group) {
		return nil, nil
	}
	g := giving{group: int(group)}
	var dirs []string
	err = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		switch {
		case p == path: // the root tells that all is done: last
			return err
		case errors.Is(err, fs.ErrNotExist): // others work in it, and removed this
			return nil
		case err != nil:
			return err
		case d.IsDir():
			dirs = append(dirs, p)
		case d.Type()&fs.ModeSymlink != 0:
			g.try(p, 0)
		default:
			g.try(p, write)
		}
		return nil
	})
	for _, p := range append(dirs, path) {
		if p != path || err == nil {
			g.try(p, dir)
		}
	}
	return g.refused(), err
}

// A giving counts what could not be given to a group.
type giving struct {
	group int
	first error
	count int
}

// try gives a file to the group. mode is added to its own; a link has none, 0.
func (g *giving) try(path string, mode fs.FileMode) {
	err := os.Lchown(path, -1, g.group)
	if mode != 0 {
		err = errors.Join(err, addMode(path, mode))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		g.count++
		if g.first == nil {
			g.first = err
		}
	}
}

func (g *giving) refused() error {
	if g.count < 2 {
		return g.first
	}
	return fmt.Errorf("%w, and %d more files", g.first, g.count-1)
}

func addMode(path string, mode fs.FileMode) error {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&fs.ModeSymlink != 0 {
		return err
	}
	return os.Chmod(path, info.Mode()|mode)
}
