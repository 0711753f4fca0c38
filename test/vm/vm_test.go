//go:build linux

package vm

import (
	"bytes"
	"debug/elf"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/test/need"
)

// TestGuest looks around in a guest: another kernel, this test's program as root, cgroup version 2 alone, the modules that were asked for
// with what they need, the program and the files that were copied, and no network but the loopback.
func TestGuest(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "note"), []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("note", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if !Run(t, Config{
		Modules: []string{"ip_vs_lc", "wireguard", "dummy"}, Programs: []string{"xz"}, Files: map[string]string{"/notes": dir},
		Env: []string{"GREETING=yes"},
	}) {
		return
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	if host := unix.ByteSliceToString(name.Nodename[:]); host != "guest" || os.Getuid() != 0 || os.Getenv("GREETING") != "yes" {
		t.Errorf("host %q, user %d, greeting %q", host, os.Getuid(), os.Getenv("GREETING"))
	}
	for path, want := range map[string]string{
		"/sys/fs/cgroup/cgroup.controllers": "memory", "/proc/modules": "wireguard", "/proc/net/ip_vs": "IP Virtual Server",
		"/notes/link": "hello", "/proc/self/mountinfo": " / / rw",
	} {
		if data, err := os.ReadFile(path); err != nil || !strings.Contains(string(data), want) {
			t.Errorf("%s: no %q in %q (%v)", path, want, data, err)
		}
	}
	files, err := linked("xz")
	if err != nil || len(files) < 3 {
		t.Errorf("xz and its libraries: %v, %v", files, err)
	}
	links, err := os.ReadDir("/sys/class/net")
	if err != nil || len(links) != 2 { // lo, and the module's dummy0
		t.Errorf("network: %v, %v", links, err)
	}
	if off := wrong(t); off > 5 {
		t.Errorf("the clock runs at another speed than the host's: %d s off", off)
	}
	if err := exchange(); err != nil {
		t.Errorf("the root can't be exchanged, as runtimes of containers do: %v", err)
	}
}

// wrong is by how many seconds the guest's clock differs from the one that the host keeps for it, at best of some looks.
func wrong(t *testing.T) (least int64) {
	least = math.MaxInt64
	for range 5 {
		var now unix.Timeval
		text, err := os.ReadFile("/sys/class/rtc/rtc0/since_epoch")
		if err == nil {
			err = unix.Gettimeofday(&now)
		}
		kept, bad := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil || bad != nil {
			t.Fatal(err, bad)
		}
		least = min(least, max(now.Sec-kept, kept-now.Sec))
	}
	return least
}

// exchange gives one thread another root. The thread ends with its goroutine.
func exchange() error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- errors.Join(
			unix.Unshare(unix.CLONE_NEWNS|unix.CLONE_FS),
			unix.Mount("tmpfs", "/mnt", "tmpfs", 0, ""),
			os.Mkdir("/mnt/old", 0o755),
			unix.PivotRoot("/mnt", "/mnt/old"))
	}()
	return <-done
}

// TestVerdict does on the host what was done in the guest.
func TestVerdict(t *testing.T) {
	for _, tt := range []struct {
		name, console string
		code          int
		err           error
		want          string
	}{
		{"passed", "--- PASS: TestX (0.1s)\n", 0, nil, ""},
		{"failed", "--- FAIL: TestX (0.1s)\n", 1, nil, "failed"},
		{"failed after a subtest passed", "--- PASS: TestX (0.1s)\n", 1, nil, "failed"},
		{"skipped", "--- SKIP: TestX (0.1s)\n", 0, nil, "skipped"},
		{"did not run", "testing: warning: no tests to run\n", 0, nil, "failed"},
		{"panic of the kernel", "--- PASS: TestX (0.1s)\n", 0, errors.New("ended"), "failed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &recorder{}
			func() {
				defer func() { _ = recover() }() // what ends a test ends its goroutine
				verdict(r, tt.code, tt.err, tt.console)
			}()
			if r.did != tt.want {
				t.Errorf("%q, want %q", r.did, tt.want)
			}
		})
	}
}

// recorder stands for a test with the name TestX.
type recorder struct {
	testing.TB
	did string
}

func (r *recorder) Helper()               {}
func (r *recorder) Name() string          { return "TestX" }
func (r *recorder) Skipf(string, ...any)  { r.did = "skipped"; panic(r.did) }
func (r *recorder) Fatalf(string, ...any) { r.did = "failed"; panic(r.did) }

func TestArchive(t *testing.T) {
	var b bytes.Buffer
	a := newArchive(&b)
	a.text("/etc/a", "12345")
	a.text("/etc/a", "the second is left out")
	if err := a.close(); err != nil {
		t.Fatal(err)
	}
	if b.Len()%4 != 0 || strings.Count(b.String(), "070701") != 3 || strings.Count(b.String(), "etc\x00") != 1 {
		t.Errorf("want a directory, a file and the end: %q", b.String())
	}
	a = newArchive(&bytes.Buffer{})
	a.copy("/x", "/there/is/nothing")
	if err := a.close(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestClosure(t *testing.T) {
	k, err := Installed()
	need.Have(t, need.Qemu, err)
	list, err := closure(k.Modules, []string{"ip-vs-lc", "ip_vs"})
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]int{}
	for i, m := range list {
		if _, err := elf.NewFile(bytes.NewReader(m.data)); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		at[m.name] = i + 1
	}
	if len(at) != len(list) || at["nf_conntrack"] == 0 || at["nf_conntrack"] > at["ip_vs"] || at["ip_vs"] > at["ip_vs_lc"] {
		t.Errorf("in this order: %v", at)
	}
	if _, err := closure(k.Modules, []string{"no_such"}); err == nil {
		t.Error("a module that is not there was found")
	}
}

func TestPattern(t *testing.T) {
	if got := pattern("TestA/b.c"); got != `^TestA$/^b\.c$` {
		t.Error(got)
	}
}
