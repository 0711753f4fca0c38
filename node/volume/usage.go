package volume

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/node/csi"
	"github.com/kloop-dev/kloop/node/pressure"
)

// walkEvery is the least time between two walks through a volume: a large one costs.
const walkEvery = time.Minute

// Usage tells how full a pod's volumes are: what drivers said of theirs, how full the file systems of local claims are, and what lies in
// the directories of the others. Paths of the host are left out: nobody knows what is in them.
func (m *Mounter) Usage(ctx context.Context, pod *corev1.Pod) []csi.Usage {
	list := m.csi.Usage(pod.UID)
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		switch claim := core.ClaimName(pod, v); {
		case claim != "":
			if u, ok := m.claimUsage(ctx, pod, v.Name, claim); ok {
				list = append(list, u)
			}
		case v.NFS != nil:
			if u, ok := m.nfs.usage(filepath.Join(m.volumesDir(pod.UID), nfsPlugin, v.Name)); ok {
				u.Volume = v.Name
				list = append(list, u)
			}
		case plugin(v) != "":
			if u, ok := m.ownUsage(pod, v); ok {
				list = append(list, u)
			}
		}
	}
	return list
}

// claimUsage looks at the file system of a claim's directory. false: it is no directory of this host, or not there.
func (m *Mounter) claimUsage(ctx context.Context, pod *corev1.Pod, volume, claim string) (u csi.Usage, ok bool) {
	s := m.state(pod.UID)
	m.mu.Lock()
	path, known := s.paths[volume]
	m.mu.Unlock()
	if !known {
		_, pv, err := m.bound(ctx, pod, volume, claim)
		if err != nil {
			return u, false
		}
		if pv.Spec.NFS != nil {
			path = filepath.Join(m.volumesDir(pod.UID), nfsPlugin, pv.Name)
		}
		if pv.Spec.Local != nil {
			path = pv.Spec.Local.Path
			block := pv.Spec.VolumeMode != nil && *pv.Spec.VolumeMode == corev1.PersistentVolumeBlock
			if _, err := device(path); err == nil && !block { // its file system is mounted for the pod
				path = filepath.Join(m.volumesDir(pod.UID), localPlugin, pv.Name)
			}
		}
		m.mu.Lock()
		s.paths[volume] = path
		m.mu.Unlock()
	}
	if path == "" {
		return u, false
	}
	if filepath.Base(filepath.Dir(path)) == nfsPlugin {
		u, ok = m.nfs.usage(path)
	} else if u, ok = deviceSize(path); !ok {
		u, ok = fileSystem(path)
	}
	u.Volume, u.Namespace, u.Claim = volume, pod.Namespace, claim
	return u, ok
}

// ownUsage looks at a directory of the pod's own: one in memory is a file system, of others each file counts.
func (m *Mounter) ownUsage(pod *corev1.Pod, v *corev1.Volume) (u csi.Usage, ok bool) {
	path := filepath.Join(m.volumesDir(pod.UID), "kubernetes.io~"+plugin(v), v.Name)
	u, ok = fileSystem(path)
	u.Volume = v.Name
	if !ok || v.EmptyDir != nil && v.EmptyDir.Medium != corev1.StorageMediumDefault {
		return u, ok
	}
	s := m.state(pod.UID)
	m.mu.Lock()
	w := s.walked[v.Name]
	m.mu.Unlock()
	if now := time.Now(); now.Sub(w.at) >= walkEvery {
		size, files := pressure.Walk(path)
		w = walked{at: now, size: uint64(max(size, 0)), files: uint64(max(files, 0))}
		m.mu.Lock()
		s.walked[v.Name] = w
		m.mu.Unlock()
	}
	u.Used, u.InodesUsed = w.size, w.files
	return u, true
}

// walked counts the files of a directory.
type walked struct {
	at          time.Time
	size, files uint64
}

// deviceSize is the size of a block device: nobody knows what is on it. false: it is none.
func deviceSize(path string) (u csi.Usage, ok bool) {
	real, err := device(path)
	if err != nil {
		return u, false
	}
	f, err := os.Open(real)
	if err != nil {
		return u, false
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	return csi.Usage{At: time.Now(), Size: uint64(max(size, 0))}, err == nil
}

func fileSystem(path string) (u csi.Usage, ok bool) {
	var fs unix.Statfs_t
	if unix.Statfs(path, &fs) != nil {
		return u, false
	}
	size := uint64(fs.Bsize)
	return csi.Usage{At: time.Now(), Used: (fs.Blocks - fs.Bfree) * size, Free: fs.Bavail * size, Size: fs.Blocks * size,
		Inodes: fs.Files, InodesFree: fs.Ffree, InodesUsed: fs.Files - fs.Ffree}, true
}
