//go:build linux

package container

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kloop-dev/kloop/internal/eventually"
	"github.com/kloop-dev/kloop/test/need"
	"github.com/kloop-dev/kloop/test/vm"
)

const built = "../../bin/kloop"

// A box is a container by runc with namespaces and cgroups of its own, and all rights that root has here. Its files are Debian's, with
// containerd among them, and the program; its data are on a volume.
type box struct {
	t             *testing.T
	dir, data, id string
	out           *bytes.Buffer
	cmd           *exec.Cmd
}

func newBox(t *testing.T) *box {
	t.Helper()
	need.BeRoot(t)
	kernel, err := vm.Installed()
	if err == nil {
		_, err = os.Stat(filepath.Join(kernel.Root, "usr/bin/containerd"))
	}
	need.Have(t, need.Qemu, err)
	_, err = exec.LookPath("runc")
	need.Have(t, need.Containerd, err)
	program, err := filepath.Abs(built)
	if err == nil {
		_, err = os.Stat(program)
	}
	if err != nil {
		need.Have(t, need.Qemu, fmt.Errorf("make bin/kloop: %w", err))
	}
	b := &box{t: t, dir: t.TempDir(), id: "kloop-box-" + strconv.Itoa(os.Getpid())}
	b.data = filepath.Join(b.dir, "data")
	root := filepath.Join(b.dir, "root")
	for _, dir := range []string{"data", "root", "upper/usr/local/bin", "upper/etc", "work"} {
		if err := os.MkdirAll(filepath.Join(b.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for file, text := range map[string]string{"etc/hosts": "127.0.0.1 localhost\n", "etc/resolv.conf": "", "usr/local/bin/kloop": ""} {
		if err := os.WriteFile(filepath.Join(b.dir, "upper", file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	layers := fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work", kernel.Root, b.dir, b.dir)
	if err := unix.Mount("overlay", root, "overlay", 0, layers); err != nil {
		need.Have(t, need.Root, err)
	}
	t.Cleanup(func() {
		b.kill()
		b.sweep()
		if err := unix.Unmount(root, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	b.configure(root, program)
	return b
}

// rights are the names of the capabilities that this process may have.
func rights(t *testing.T) (names []string) {
	t.Helper()
	all := strings.Fields("CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE " +
		"NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT " +
		"SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG")
	for i, name := range all {
		if has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(i), 0, 0, 0); err == nil && has == 1 {
			names = append(names, "CAP_"+name)
		}
	}
	return names
}

func (b *box) configure(root, program string) {
	b.t.Helper()
	type m = map[string]any
	caps, spaces := rights(b.t), []m{}
	for _, kind := range []string{"pid", "network", "ipc", "uts", "mount", "cgroup"} {
		spaces = append(spaces, m{"type": kind})
	}
	text, err := json.Marshal(m{"ociVersion": "1.0.2", "hostname": "box", "root": m{"path": root},
		"process": m{"args": []string{"kloop", "up"}, "cwd": "/", "user": m{},
			"env": []string{"PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, "capabilities": m{"bounding": caps, "effective": caps,
				"inheritable": caps, "permitted": caps}},
		"mounts": []m{{"destination": "/proc", "type": "proc", "source": "proc"},
			{"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": []string{"nosuid", "mode=755"}},
			{"destination": "/dev/pts", "type": "devpts", "source": "devpts", "options": []string{"newinstance", "ptmxmode=0666"}},
			{"destination": "/dev/shm", "type": "tmpfs", "source": "shm"}, {"destination": "/sys", "type": "sysfs", "source": "sysfs"},
			{"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": []string{"rw"}},
			{"destination": "/usr/local/bin/kloop", "type": "bind", "source": program, "options": []string{"bind", "ro"}},
			{"destination": "/var/lib/kloop", "type": "bind", "source": b.data, "options": []string{"bind", "rw"}}},
		"linux": m{"cgroupsPath": "/" + b.id, "namespaces": spaces,
			"resources": m{"devices": []m{{"allow": true, "access": "rwm"}}}}})
	if err := errors.Join(err, os.WriteFile(filepath.Join(b.dir, "config.json"), text, 0o600)); err != nil {
		b.t.Fatal(err)
	}
}

func (b *box) runc(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "runc", append([]string{"--root", filepath.Join(b.dir, "runc")}, args...)...)
	cmd.Dir = b.dir
	return cmd
}

func (b *box) start() {
	b.t.Helper()
	b.out, b.cmd = &bytes.Buffer{}, b.runc(b.t.Context(), "run", b.id)
	b.cmd.Stdout, b.cmd.Stderr = b.out, b.out
	if err := b.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
}

// kill ends the container at once, with all that runs in it.
func (b *box) kill() {
	ctx := context.WithoutCancel(b.t.Context())
	_ = b.runc(ctx, "kill", b.id, "KILL").Run() // it may have ended
	if b.cmd != nil {
		_ = b.cmd.Wait() // it was killed
		b.cmd = nil
		if b.t.Failed() {
			b.t.Logf("%s", b.out)
		}
	}
	_ = b.runc(ctx, "delete", "-f", b.id).Run()
}

// sweep removes the cgroups of pods that the container left.
func (b *box) sweep() {
	tops, _ := filepath.Glob("/sys/fs/cgroup/*/" + b.id)
	for _, top := range append(tops, "/sys/fs/cgroup/"+b.id) {
		_ = exec.Command("find", top, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";").Run() // there may be none
	}
}

// pid is that of the container's first process.
func (b *box) pid() (int, error) {
	var state struct{ Pid int }
	out, err := b.runc(b.t.Context(), "state", b.id).Output()
	if err == nil {
		err = json.Unmarshal(out, &state)
	}
	return state.Pid, err
}

// client reaches the cluster from the container's network.
func (b *box) client() (*kubernetes.Clientset, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(b.data, "admin.kubeconfig"))
	if err != nil {
		return nil, err
	}
	cfg.Dial = func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		pid, err := b.pid()
		if err != nil {
			return nil, err
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
			fd, ferr := unix.Open("/proc/"+strconv.Itoa(pid)+"/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err = ferr; err != nil {
				return
			}
			defer unix.Close(fd)
			if err = unix.Setns(fd, unix.CLONE_NEWNET); err == nil {
				conn, err = new(net.Dialer).DialContext(ctx, network, address)
			}
		}()
		<-done
		return conn, err
	}
	return kubernetes.NewForConfig(cfg)
}

// runs waits until the pod runs, after it was started so many times more, on a node that is Ready.
func (b *box) runs(restarts int32) {
	b.t.Helper()
	eventually.Sees(b.t, time.Minute, "the pod runs", func() (bool, any) {
		cs, err := b.client()
		if err != nil {
			return false, err
		}
		node, err := cs.CoreV1().Nodes().Get(b.t.Context(), "box", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
		pod, err := cs.CoreV1().Pods("default").Get(b.t.Context(), "p", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			_, err = cs.CoreV1().Pods("default").Create(b.t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "kloop.dev/pause:1",
					ImagePullPolicy: corev1.PullNever}}}}, metav1.CreateOptions{})
		}
		if err != nil || !ready || len(pod.Status.ContainerStatuses) != 1 {
			return false, fmt.Sprint(err, node.Status.Conditions)
		}
		s := pod.Status.ContainerStatuses[0]
		return s.Ready && s.RestartCount == restarts, pod.Status
	})
}

// dead are the children of the container's first process that ended, and of which it has not taken leave.
func (b *box) dead() (list []string) {
	pid, err := b.pid()
	if err != nil {
		return []string{err.Error()}
	}
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		b.t.Fatal(err)
	}
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(text), fmt.Sprintf(") Z %d ", pid)) {
			list = append(list, string(text))
		}
	}
	return list
}

// TestContainer has kloop up as a container's first process: its node is Ready and runs a pod, and does so again, with the same data, after
// the container was killed and another one started.
func TestContainer(t *testing.T) {
	b := newBox(t)
	b.start()
	b.runs(0)
	b.kill()
	b.start()
	b.runs(1)
	cs, err := b.client()
	if err != nil {
		t.Fatal(err)
	}
	if err := cs.CoreV1().Pods("default").Delete(t.Context(), "p", metav1.DeleteOptions{GracePeriodSeconds: new(int64(1))}); err != nil {
		t.Fatal(err)
	}
	eventually.Within(t, time.Minute, "the pod went", func() bool {
		_, err := cs.CoreV1().Pods("default").Get(t.Context(), "p", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	// The shim is no child of containerd's: it is the first process that takes leave of it.
	eventually.Sees(t, 20*time.Second, "no process is left dead", func() (bool, any) {
		list := b.dead()
		return len(list) == 0, list
	})
}
