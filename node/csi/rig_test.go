package csi

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/node/plugins"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/test/csidriver"
)

// inside tells a test's process that it has a mount namespace of its own.
const inside = "KLOOP_CSI_TEST"

// TestMain runs the tests of root in a mount namespace of their own: what they mount goes with it.
func TestMain(m *testing.M) {
	if os.Getuid() != 0 || os.Getenv(inside) != "" {
		os.Exit(m.Run())
	}
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A rig is a node with a driver, a cluster of one node, and an agent's Mounter that can be made anew.
type rig struct {
	*testing.T
	*Mounter
	dir  string
	d    *csidriver.Driver
	c    client.Client
	ctx  context.Context // of the agent
	kill context.CancelFunc
	// within bounds calls of the driver; 0: as long as nobody waits.
	within time.Duration
	// selinux says that files have labels; counted are what became of them.
	selinux bool
	counted []string
}

func newRig(t *testing.T, cfg csidriver.Config) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("", "csi") // short: the address of a socket holds few bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	cfg.Dir, cfg.Store, cfg.Mount = filepath.Join(dir, "k"), filepath.Join(dir, "store"), os.Getuid() == 0
	if cfg.Can == nil {
		cfg.Can = csidriver.Usual
	}
	r := &rig{T: t, dir: cfg.Dir, d: csidriver.New(cfg), c: startServer(t)}
	t.Cleanup(r.d.Stop)
	r.create(kinds.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	no := false
	r.create(kinds.CSIDrivers, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: r.d.Name},
		Spec: storagev1.CSIDriverSpec{AttachRequired: &no}})
	r.start()
	return r
}

// startServer returns a client of a front door over a store in memory.
func startServer(t *testing.T) client.Client {
	t.Helper()
	return testcluster.Start(t)
}

// start begins a new agent, which knows nothing but what is on disk, and the driver if it does not run.
func (r *rig) start() {
	r.Helper()
	r.ctx, r.kill = context.WithCancel(r.Context())
	r.Mounter = New(Config{Dir: r.dir, Client: r.c, Node: "n", Log: slog.New(slog.DiscardHandler), Within: cmp.Or(r.within, 30*time.Second),
		Token: func(_ context.Context, p *corev1.Pod, audience string, _ int64) (Token, error) {
			return Token{Text: p.Name + "@" + audience, Expires: time.Unix(1e9, 0)}, nil
		}, SELinux: r.selinux, Labelled: func(what, driver, mode string) { r.counted = append(r.counted, what+" "+mode) }})
	r.restartDriver()
	r.check(r.Open(r.ctx))
}

// restartDriver serves and registers the driver anew.
func (r *rig) restartDriver() {
	r.Helper()
	r.d.Stop()
	r.check(r.d.Start())
	p := plugins.Plugin{Type: plugins.CSI, Name: r.d.Name, Endpoint: r.d.Socket(), Versions: r.d.Versions}
	r.Drivers.Deregister(p)
	r.check(r.Drivers.Register(r.Context(), p))
}

func (r *rig) check(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) create(k resource.Kind, o resource.Object) resource.Object {
	r.Helper()
	out, err := r.c.Create(r.Context(), k, o)
	r.check(err)
	return out
}

// pod is a pod of a UID.
func pod(uid string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod-" + uid, UID: types.UID(uid)},
		Spec: corev1.PodSpec{ServiceAccountName: "acct"}}
}

// volume is a PersistentVolume of the driver, with its claim, neither of them stored.
func (r *rig) volume(name string, modes ...corev1.PersistentVolumeAccessMode) *corev1.PersistentVolume {
	if modes == nil {
		modes = append(modes, corev1.ReadWriteOnce)
	}
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{AccessModes: modes,
		Capacity: corev1.ResourceList{corev1.ResourceStorage: apiresource.MustParse("1Gi")},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: r.d.Name, VolumeHandle: "h-" + name,
			FSType: "ext4", VolumeAttributes: map[string]string{"a": "b"}}}}}
}

func ask(uid string, pv *corev1.PersistentVolume, block bool) *Request {
	return &Request{Pod: pod(uid), Name: "data", PV: pv, Block: block}
}

// mounts mounts, and fails the test if that fails.
func (r *rig) mounts(q *Request) Mounted {
	r.Helper()
	got, err := r.Mount(r.ctx, q)
	r.check(err)
	return got
}

// clean checks that nothing is left: of the driver's, on disk, of the Node's; and that nobody broke the protocol.
func (r *rig) clean() {
	r.Helper()
	for _, b := range r.d.Breaches() {
		r.Error("breach:", b)
	}
	for _, l := range r.d.Left() {
		r.Error("left:", l)
	}
	for _, top := range []string{"pods", "plugins/kubernetes.io"} {
		_ = filepath.WalkDir(filepath.Join(r.dir, top), func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() || strings.HasSuffix(path, "mount") {
				r.Error("on disk:", path)
			}
			return nil
		})
	}
	n := get(r, kinds.Nodes, "", "n")
	if list := n.Status.VolumesInUse; len(list) > 0 {
		r.Errorf("in use: %v", list)
	}
}

// get reads an object of the API.
func get[T resource.Object](r *rig, d *resource.Def[T], ns, name string) T {
	r.Helper()
	obj, err := r.c.Get(r.Context(), d, ns, name)
	r.check(err)
	return obj.(T)
}
