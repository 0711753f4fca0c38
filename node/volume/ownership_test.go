package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// A groupRig is a local directory with a file, and a mounter for pods that use it.
type groupRig struct {
	*testing.T
	m    *Mounter
	path string // of the volume
}

func newGroupRig(t *testing.T, linked bool) *groupRig {
	t.Helper()
	c, dir := cluster(), t.TempDir()
	if linked {
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(dir, link); err != nil {
			t.Fatal(err)
		}
		dir = link
	}
	c.server["persistentvolumeclaims/ns/data"] = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{UID: "c1"},
		Spec:   corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}
	c.server["persistentvolumes//pv"] = &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{UID: "c1"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: dir}}}}
	r := &groupRig{t, mounter(t, c), dir}
	if err := os.WriteFile(r.file(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *groupRig) file() string { return filepath.Join(r.path, "f") }

// mounts prepares the volume for a pod of the security context, and says whose root and file it is.
func (r *groupRig) mounts(uid types.UID, security, volume string, edits ...func(*corev1.Pod)) (root, file int) {
	r.Helper()
	p := pod(r.T, `{securityContext: {`+security+`}, volumes: [{name: v, persistentVolumeClaim: {claimName: data`+volume+`}}]}`)
	p.UID = uid
	for _, edit := range edits {
		edit(p)
	}
	if _, err := r.m.Prepare(r.Context(), p); err != nil {
		r.Fatal(err)
	}
	return gidOf(r.T, r.path), gidOf(r.T, r.file())
}

func gidOf(t *testing.T, path string) int {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	gid, _ := owner(info)
	return gid
}

// TestGroupOfLocal follows the group of a local volume's files through the pods that use it, one after the other and together.
func TestGroupOfLocal(t *testing.T) {
	needRoot(t)
	for _, linked := range []bool{false, true} {
		t.Run(fmt.Sprint("by a link ", linked), func(t *testing.T) { groupOfLocal(t, newGroupRig(t, linked)) })
	}
}

func groupOfLocal(t *testing.T, r *groupRig) {
	const root, always = "fsGroup: 5, fsGroupChangePolicy: OnRootMismatch", "fsGroup: 5, fsGroupChangePolicy: Always"
	ran := func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "all", ContainerID: "x"}}
	}
	same := func(*corev1.Pod) {}
	for _, s := range []struct {
		name, security, volume string
		pod                    types.UID
		edit                   func(*corev1.Pod)
		chgrp                  int    // of the file, before
		gone                   string // pods that go, before
		anew                   bool   // the agent starts anew, before
		root, file             int
	}{
		{name: "read only", pod: "ro", security: "fsGroup: 5", volume: ", readOnly: true", root: 0, file: 0},
		{name: "for one pod", pod: "u1", security: "fsGroup: 5", gone: "ro", root: 5, file: 5},
		{name: "once for a pod", pod: "u1", security: "fsGroup: 5", chgrp: 9, root: 5, file: 9},
		{name: "nor after it ran", pod: "u1", security: "fsGroup: 5", edit: ran, anew: true, root: 5, file: 9},
		{name: "the same for another", pod: "u2", security: "fsGroup: 5", root: 5, file: 9},
		{name: "another's for a third", pod: "u3", security: "fsGroup: 7", root: 5, file: 9},
		{name: "nobody's any more", pod: "u4", security: "fsGroup: 7", gone: "u1 u2 u3", root: 7, file: 7},
		{name: "no group", pod: "u5", gone: "u4", root: 7, file: 7},
		{name: "beside one without a group", pod: "u6", security: "fsGroup: 5", root: 7, file: 7},
		{name: "by default all", pod: "u7", security: "fsGroup: 7", gone: "u5 u6", chgrp: 9, root: 7, file: 7},
		{name: "not the root's", pod: "u8", security: root, gone: "u7", chgrp: 9, root: 5, file: 5},
		{name: "the root's", pod: "u9", security: root, gone: "u8", chgrp: 9, root: 5, file: 9},
		{name: "always", pod: "u10", security: always, gone: "u9", root: 5, file: 5},
	} {
		if s.edit == nil {
			s.edit = same
		}
		if s.chgrp != 0 {
			if err := os.Chown(r.file(), 0, s.chgrp); err != nil {
				t.Fatal(err)
			}
		}
		for _, uid := range strings.Fields(s.gone) {
			if err := r.m.Remove(t.Context(), types.UID(uid)); err != nil {
				t.Fatal(err)
			}
		}
		if s.anew {
			r.m = New(r.m.cfg)
		}
		if root, file := r.mounts(s.pod, s.security, s.volume, s.edit); root != s.root || file != s.file {
			t.Errorf("%s: the root is %d's, the file %d's; want %d, %d", s.name, root, file, s.root, s.file)
		}
	}
}

// TestGroupOfOthers tells people, once, when a pod gets a volume that another has for another group.
func TestGroupOfOthers(t *testing.T) {
	needRoot(t)
	synctest.Test(t, func(t *testing.T) {
		r, c := newGroupRig(t, false), testcluster.Start(t)
		if _, err := c.Create(t.Context(), kinds.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}); err != nil {
			t.Fatal(err)
		}
		events := client.NewRecorder(c, "kubelet", nil)
		var wg sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		wg.Go(func() { events.Run(ctx) })
		defer wg.Wait()
		defer stop()
		r.m.cfg.Events = events
		r.mounts("u1", "fsGroup: 5", "")
		r.mounts("u2", "fsGroup: 7", "")
		r.mounts("u2", "fsGroup: 7", "")
		synctest.Wait()
		list := resource.List(c.Read(), kinds.Events, "")
		if len(list) != 1 || list[0].Reason != "AlreadyMountedVolume" || list[0].InvolvedObject.UID != "u2" || list[0].Count > 1 ||
			list[0].Message != "The requested fsGroup is 7, but the volume pv has GID 5. The volume may not be shareable." {
			t.Errorf("%+v", list)
		}
	})
}

// TestOwnRefused: who gives files to a group may not do so, as on a server that takes root for nobody. The volume is as good as it was.
func TestOwnRefused(t *testing.T) {
	needRoot(t)
	dir := filepath.Join(t.TempDir(), "v")
	if err := errors.Join(os.MkdirAll(dir+"/a", 0o755), os.WriteFile(dir+"/a/f", nil, 0o644), os.Symlink("f", dir+"/a/l")); err != nil {
		t.Fatal(err)
	}
	for at := dir; at != filepath.Dir(at); at = filepath.Dir(at) { // nobody may look into it
		if info, err := os.Stat(at); err != nil || info.Mode().Perm()&1 == 0 && os.Chmod(at, info.Mode()|0o055) != nil {
			t.Fatal(at, err)
		}
	}
	var refused, err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if err = unix.Setfsuid(65534); err == nil {
			refused, err = own(dir, 777, true)
		}
	}()
	<-done
	if err != nil || refused == nil || !strings.Contains(refused.Error(), "and 3 more files") || !errors.Is(refused, fs.ErrPermission) {
		t.Errorf("refused: %v, error: %v", refused, err)
	}
	if gid := gidOf(t, dir+"/a/f"); gid == 777 {
		t.Error("the file was given away")
	}
}

// TestOwnGone: what others remove while a volume is given to a group is not missed.
func TestOwnGone(t *testing.T) {
	g := giving{group: os.Getgid()}
	g.try(filepath.Join(t.TempDir(), "gone"), 0o660)
	if err := g.refused(); err != nil {
		t.Error(err)
	}
}
