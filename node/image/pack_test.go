package image

import (
	"archive/tar"
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kloop-dev/kloop/test/need"
)

func TestPackIsReproducible(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "etc/motd"), []byte("hello"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("motd", filepath.Join(root, "etc/link")); err != nil {
		t.Fatal(err)
	}
	spec := Spec{Ref: "example.org/web:1", Root: root, Entrypoint: []string{"/web"}, Ports: []string{"80/tcp"}}
	var a, b bytes.Buffer
	if err := errors.Join(Pack(&a, spec), Pack(&b, spec)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Error("packing twice gave different bytes")
	}
	files := unpack(t, a.Bytes())
	var index struct {
		Manifests []struct {
			Digest      string
			Annotations map[string]string
		}
	}
	if err := json.Unmarshal(files["index.json"], &index); err != nil {
		t.Fatal(err)
	}
	if got := index.Manifests[0].Annotations["io.containerd.image.name"]; got != spec.Ref {
		t.Errorf("name = %q, want %q", got, spec.Ref)
	}
	if _, ok := files["blobs/sha256/"+strings.TrimPrefix(index.Manifests[0].Digest, "sha256:")]; !ok {
		t.Error("the manifest is not among the blobs")
	}
}

func TestPackNeedsReference(t *testing.T) {
	if err := Pack(io.Discard, Spec{}); err == nil {
		t.Error("packed an image without a name")
	}
}

func TestPauseEndsOnTerm(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the program is for amd64")
	}
	program, err := executable(elf.EM_X86_64, pauseAMD64)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "pause")
	if err := os.WriteFile(path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		cmd := exec.Command(path)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		waitBlocked(t, cmd.Process.Pid)
		// Signals it does not know must not end it, and queue before the one that does.
		if err := errors.Join(cmd.Process.Signal(syscall.SIGHUP), cmd.Process.Signal(syscall.SIGCHLD), cmd.Process.Signal(sig)); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %v", sig, err)
		}
	}
}

// waitBlocked waits until the process waits for signals (system call 128): before that they would kill it.
func waitBlocked(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); runtime.Gosched() {
		call, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", pid))
		need.Have(t, need.Proc, err)
		if strings.HasPrefix(string(call), "128 ") {
			return
		}
	}
	t.Fatal("the program never waited for signals")
}

func unpack(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for in := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(in); err != nil {
			t.Fatal(err)
		}
	}
}

// The pause program is there for every processor that nodes are built for, and says what to do for others.
func TestPausePrograms(t *testing.T) {
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		t.Run(arch, func(t *testing.T) {
			program, err := pause(arch)
			if err != nil {
				t.Fatal(err)
			}
			f, err := elf.NewFile(bytes.NewReader(program))
			if err != nil || f.Machine != machine || f.Entry < f.Progs[0].Vaddr || f.Entry >= f.Progs[0].Vaddr+f.Progs[0].Filesz {
				t.Errorf("%s: %+v, %v", arch, f, err)
			}
			if arch == "arm64" {
				emulate(t, "qemu-aarch64-static", program)
			}
		})
	}
	if _, err := pause("riscv64"); err == nil || !strings.Contains(err.Error(), "--runtime") {
		t.Errorf("riscv64: %v", err)
	}
}

// emulate runs the program, where the emulator is: it blocks all signals, waits for a SIGTERM, and ends well.
func emulate(t *testing.T, emulator string, program []byte) {
	path := filepath.Join(t.TempDir(), "pause")
	if err := os.WriteFile(path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(emulator, "-strace", path)
	calls, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); errors.Is(err, exec.ErrNotFound) {
		t.Skip("no emulator: the program is only looked at")
	} else if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewScanner(calls)
	if !in.Scan() || !strings.Contains(in.Text(), "rt_sigprocmask(SIG_SETMASK") {
		t.Errorf("its first call is %s", in.Text())
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for in.Scan() {
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
