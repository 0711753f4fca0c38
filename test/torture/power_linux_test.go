package torture

import (
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/test/need"
)

var cuts = flag.Int("cuts", 3, "how often the power of the server's disk is cut")

// What the kernel is asked for to cut a disk off (EXT4_IOC_SHUTDOWN), and that nothing is written before: neither dirty pages nor the
// journal's commit. That is what xfstests cut power with.
const (
	shutDown   = 0x8004587d
	withoutLog = 2
)

// A disk is a file system of its own whose power can be cut: what was not synced is lost, and nothing reaches it any more.
type disk struct {
	t       *testing.T
	image   string
	dir     string
	options string
}

// newDisk makes and mounts a disk of 1 GiB, which takes the room that is used on it.
func newDisk(t *testing.T, options string) *disk {
	t.Helper()
	need.BeRoot(t)
	for _, tool := range []string{"mkfs.ext4", "mount", "umount"} {
		if _, err := exec.LookPath(tool); err != nil {
			need.Have(t, need.Root, err)
		}
	}
	d := &disk{t: t, image: filepath.Join(t.TempDir(), "image"), dir: t.TempDir(), options: options}
	f, err := os.Create(d.image)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(1 << 30); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	d.run("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=1", d.image)
	d.mount()
	t.Cleanup(func() { d.run("umount", d.dir) })
	return d
}

func (d *disk) run(name string, args ...string) {
	d.t.Helper()
	if text, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		d.t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, text)
	}
}

func (d *disk) mount() { d.t.Helper(); d.run("mount", "-o", "loop,"+d.options, d.image, d.dir) }

// cut takes the power away.
func (d *disk) cut() {
	d.t.Helper()
	f, err := os.Open(d.dir)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	flags := uint32(withoutLog)
	if _, _, no := unix.Syscall(unix.SYS_IOCTL, f.Fd(), shutDown, uintptr(unsafe.Pointer(&flags))); no != 0 {
		need.Have(d.t, "ext4 that can be shut down", no)
	}
}

// again gives the power back: the file system is mounted anew, from what is on the disk. Nobody may have it open.
func (d *disk) again() {
	d.t.Helper()
	d.run("umount", d.dir)
	d.mount()
}

// What the cuts are worth: they take what was not synced, and leave what was.
func TestCutForgets(t *testing.T) {
	d := newDisk(t, "data=ordered")
	write := func(name string, sync bool) {
		f, err := os.Create(filepath.Join(d.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(name); err != nil {
			t.Fatal(err)
		}
		if sync {
			if err := f.Sync(); err != nil {
				t.Fatal(err)
			}
		}
	}
	write("kept", true)
	write("lost", false)
	d.cut()
	d.again()
	kept, err := os.ReadFile(filepath.Join(d.dir, "kept"))
	if err != nil || string(kept) != "kept" {
		t.Errorf("what was synced: %q, %v", kept, err)
	}
	if lost, err := os.ReadFile(filepath.Join(d.dir, "lost")); err == nil && len(lost) > 0 {
		t.Errorf("what was not synced is there: %q", lost)
	}
}

// A server whose power is cut at any moment under load loses nothing that it had acknowledged, and starts again by itself. The second
// disk writes data in any order, as the cheapest settings of a file system allow.
func TestPowerCut(t *testing.T) {
	for _, options := range []string{"data=ordered", "data=writeback,nobarrier"} {
		t.Run(options, func(t *testing.T) {
			d := newDisk(t, options)
			v := newVictim(t, filepath.Join(d.dir, "data"))
			torment(t, v, *cuts, func() {
				v.off.Store(true) // the kernel lets some calls pass that were under way: no machine without power would answer
				d.cut()
				v.kill()
				d.again()
			})
			v.kill()
		})
	}
}

// A server whose power is cut while it starts for the first time starts at the next try: with keys that fit each other, and a
// kubeconfig that opens.
func TestPowerCutAtFirst(t *testing.T) {
	d := newDisk(t, "data=writeback,nobarrier")
	random := rand.New(rand.NewPCG(*seed, 3))
	for i := range *cuts {
		v := newVictim(t, filepath.Join(d.dir, string(rune('a'+i%26))))
		v.launch()
		time.Sleep(time.Duration(random.IntN(700)) * time.Millisecond) // at which moment is the point
		d.cut()
		v.kill()
		d.again()
		v.start()
		if _, err := v.client().CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Fatalf("after a cut while it started: %v", err)
		}
		v.kill()
		if err := os.RemoveAll(v.dir); err != nil {
			t.Fatal(err)
		}
	}
}
