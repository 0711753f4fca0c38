//go:build linux

// Package vm runs a test in a virtual machine: the distribution's kernel in a qemu that interprets every instruction, so that
// neither /dev/kvm nor a certain kernel of the host is needed. The guest has cgroup version 2 alone, loads modules by name, and may
// be broken in any way. It has a loopback and no other network, and no disk: all it sees is in memory. Its first process is a program of
// this package's, or systemd on a root of Debian's packages.
//
// scripts/vm fetches qemu and the kernel, and runs programs that are no tests.
package vm

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/test/need"
)

// Config says what a test needs in its guest.
type Config struct {
	Modules  []string          // of the kernel, by name; what they depend on is loaded before them
	Later    []string          // modules that Load loads, with what they depend on
	Programs []string          // of the host, found as a shell does, with the libraries that they are linked with
	Files    map[string]string // path in the guest → file or directory of the host
	Build    map[string]string // path in the guest → Go package that is compiled for it, relative to the test's
	Memory   int               // MiB; 0: 1024, of which what is copied takes its part
	Timeout  time.Duration     // from power on to the end of the test; 0: 2 minutes, at most 18
	Env      []string          // besides KLOOP_MUST, which the guest has from the host
	Systemd  bool              // a root of the distribution's packages (scripts/vm has their list), the command as a service of systemd
}

const (
	inGuest  = "KLOOP_VM_GUEST"
	testPath = "/kloop.test"
	laterDir = "/later"
	limit    = 18 * time.Minute
)

// Inside says that this process runs in a guest.
func Inside() bool { return os.Getenv(inGuest) != "" }

// Run runs the calling test once more in a guest of its own, as root. In the guest it returns true, and the test goes on; on the
// host it returns false when that is over, and the test has failed or been skipped as it was there:
//
//	func TestLeastConnections(t *testing.T) {
//		if !vm.Run(t, vm.Config{Modules: []string{"ip_vs_lc"}}) {
//			return
//		}
//
// A program that is linked with libraries, as with cgo, is linked again without. A test is skipped in a short run, and by package
// need without qemu or kernel. The guest's directory is /; what the test reads of its package must be in Files.
func Run(t *testing.T, c Config) bool {
	t.Helper()
	if Inside() {
		return true
	}
	if testing.Short() {
		t.Skip("a machine takes seconds to boot")
	}
	kernel, err := Installed()
	need.Have(t, need.Qemu, err)
	if c.Systemd {
		need.Have(t, need.Qemu, kernel.rooted())
	}
	dir := t.TempDir()
	program, err := static(filepath.Join(dir, "test"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Timeout == 0 {
		c.Timeout = 2 * time.Minute
	}
	c.Timeout = min(c.Timeout, limit)
	c.Env = append(c.Env, inGuest+"=1", "KLOOP_MUST="+os.Getenv("KLOOP_MUST"))
	files := map[string]string{testPath: program}
	maps.Copy(files, c.Files)
	for to, path := range c.Build {
		out := filepath.Join(dir, "built", to)
		if err := compile(out, "build", path); err != nil {
			t.Fatal(err)
		}
		files[to] = out
	}
	c.Files = files
	console := &tail{most: 1 << 20}
	ctx, cancel := context.WithTimeout(t.Context(), c.Timeout)
	defer cancel()
	start := time.Now()
	code, err := Boot(ctx, kernel, c, console, testPath, "-test.v", "-test.count=1", "-test.run="+pattern(t.Name()),
		"-test.timeout="+c.Timeout.String())
	verdict(t, code, err, console.String())
	t.Logf("%s in a guest\n%s", time.Since(start).Round(100*time.Millisecond), console)
	return false
}

// Load loads a module of Config.Later, in the guest, after those that it depends on. One that is loaded already stays.
func Load(name string) error {
	list, err := filepath.Glob(filepath.Join(laterDir, name, "*"))
	if err != nil || len(list) == 0 {
		return fmt.Errorf("the guest was not given module %s", name)
	}
	for _, path := range list {
		if err := Insert(path); err != nil {
			return err
		}
	}
	return nil
}

// Insert loads the module in a file. One that is loaded already stays.
func Insert(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("load %s: %w", filepath.Base(path), err)
	}
	return nil
}

// static returns the file of this program, or of one that is made at the path if this one needs libraries.
func static(path string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := elf.Open(self)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if libraries, err := f.ImportedLibraries(); err == nil && len(libraries) == 0 {
		return self, nil
	}
	return path, compile(path, "test", ".", "-c", "-vet=off")
}

func compile(to, verb, pkg string, flags ...string) error {
	args := append([]string{verb, "-ldflags=-w", "-o", to}, flags...)
	cmd := exec.Command("go", append(args, pkg)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile %s for the guest: %w\n%s", pkg, err, out)
	}
	return nil
}

// verdict does to the test on the host what was done to it in the guest.
func verdict(t testing.TB, code int, err error, console string) {
	t.Helper()
	switch {
	case err != nil:
		t.Fatalf("%v\n%s", err, console)
	case code != 0:
		t.Fatalf("the test ended with %d in the guest\n%s", code, console)
	case strings.Contains(console, "--- SKIP: "+t.Name()+" "):
		t.Skipf("in the guest\n%s", console)
	case !strings.Contains(console, "--- PASS: "+t.Name()+" "):
		t.Fatalf("the test did not run in the guest\n%s", console)
	}
}

// pattern is the -test.run that means one test or subtest.
func pattern(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

// A tail keeps the end of what is written to it.
type tail struct {
	kept []byte
	most int
	gone bool
}

func (b *tail) Write(p []byte) (int, error) {
	b.kept = append(b.kept, p...)
	if over := len(b.kept) - b.most; over > 0 {
		b.kept, b.gone = append(b.kept[:0], b.kept[over:]...), true
	}
	return len(p), nil
}

func (b *tail) String() string {
	text := strings.ReplaceAll(string(b.kept), "\r", "")
	if b.gone {
		return "…" + text
	}
	return text
}

// Installed finds the kernel that scripts/vm fetched, and qemu. The error says how to get what is missing.
func Installed() (Kernel, error) {
	dir := os.Getenv("KLOOP_VM")
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return Kernel{}, err
		}
		dir = filepath.Join(cache, "kloop", "vm")
	}
	k := Kernel{Image: filepath.Join(dir, "vmlinux"), Modules: filepath.Join(dir, "modules"), Root: filepath.Join(dir, "root")}
	if _, err := os.Stat(k.Image); err != nil {
		return Kernel{}, fmt.Errorf("no kernel for a guest, run scripts/vm fetch: %w", err)
	}
	if _, err := exec.LookPath(qemu); err != nil {
		return Kernel{}, fmt.Errorf("run scripts/vm fetch: %w", err)
	}
	return k, nil
}

// rooted says whether there is a root file system with systemd.
func (k Kernel) rooted() error {
	if _, err := os.Stat(filepath.Join(k.Root, first)); err != nil {
		return fmt.Errorf("no root with systemd for a guest, run scripts/vm fetch: %w", err)
	}
	return nil
}
