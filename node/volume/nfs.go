package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/node/csi"
	"github.com/kloop-dev/kloop/node/tool"
)

const (
	// nfsPlugin is the name of NFS volumes in paths.
	nfsPlugin = "kubernetes.io~nfs"
	// Calls about the files of a server that is away hang. Upstream's agent gives an unmounting a minute, too.
	nfsUnmount = time.Minute
	nfsAnswer  = 2 * time.Second
)

// nfsMounts are the directories of NFS servers that are mounted for pods.
type nfsMounts struct {
	mu    sync.Mutex
	asked map[string]bool // how full they are, and the server did not answer yet
}

// mount mounts a directory of a server for a pod, by the node's mount.nfs. Its files belong to whom the server says: no group is given
// them.
func (n *nfsMounts) mount(ctx context.Context, dir string, src *corev1.NFSVolumeSource, readOnly bool, options []string) (string, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", fmt.Errorf("make the directory: %w", err)
	}
	if here, err := mountPoint(dir); err != nil || here {
		return dir, err
	}
	server := src.Server
	if strings.Contains(server, ":") {
		server = "[" + server + "]" // an address of IPv6
	}
	args := []string{"-t", "nfs"}
	if readOnly || src.ReadOnly {
		options = append(options[:len(options):len(options)], "ro")
	}
	if len(options) > 0 {
		args = append(args, "-o", strings.Join(options, ","))
	}
	args = append(args, "--", server+":"+src.Path, dir) // who makes a pod must not give mount options of its own
	if err := tool.Do(ctx, "mount", args...); err != nil {
		return "", errors.Join(err, os.Remove(dir))
	}
	return dir, nil
}

// usage says how full the server's file system is. false: it does not say so within two seconds.
func (n *nfsMounts) usage(dir string) (u csi.Usage, ok bool) {
	n.mu.Lock()
	asked := n.asked[dir]
	if n.asked == nil {
		n.asked = map[string]bool{}
	}
	n.asked[dir] = true
	n.mu.Unlock()
	if asked { // and not answered yet: nobody else need wait for it
		return u, false
	}
	type answer struct {
		csi.Usage
		ok bool
	}
	got := make(chan answer, 1)
	go func() {
		u, ok := fileSystem(dir)
		n.mu.Lock()
		delete(n.asked, dir)
		n.mu.Unlock()
		got <- answer{u, ok}
	}()
	select {
	case a := <-got:
		return a.Usage, a.ok
	case <-time.After(nfsAnswer):
		return u, false
	}
}

// unmountNFS unmounts what lies on a server. One that does not answer within a minute loses what was not written there yet: else the pod
// could never go.
func unmountNFS(point string) error {
	done := make(chan error, 1)
	go func() { done <- unix.Unmount(point, unix.UMOUNT_NOFOLLOW) }()
	select {
	case err := <-done:
		return err
	case <-time.After(nfsUnmount):
		return unix.Unmount(point, unix.MNT_FORCE|unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	}
}
