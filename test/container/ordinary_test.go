//go:build linux

package container

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kloop-dev/kloop/internal/eventually"
	"github.com/kloop-dev/kloop/test/need"
)

// ordinary is a command of the program as a user without any rights, whose home is the directory. What it says goes to the buffer.
func ordinary(t *testing.T, home string, args ...string) (*exec.Cmd, *talk) {
	t.Helper()
	need.BeRoot(t) // to become somebody else
	const nobody = 65534
	program := filepath.Join(home, "kloop")
	if err := os.Link(built, program); err != nil && !errors.Is(err, os.ErrExist) {
		text, err := os.ReadFile(built)
		if err == nil {
			err = os.WriteFile(program, text, 0o755)
		}
		if err != nil {
			need.Have(t, need.Qemu, err) // make bin/kloop, as for the tests beside this one
		}
	}
	if err := errors.Join(os.Chown(home, nobody, nobody), os.Chmod(filepath.Dir(home), 0o755)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd, out := exec.CommandContext(ctx, program, args...), &talk{}
	cmd.Dir, cmd.Env = home, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, Pdeathsig: syscall.SIGKILL}
	cmd.Stdout, cmd.Stderr = out, out
	return cmd, out
}

// TestOrdinaryUser runs a control plane with no rights at all: it becomes ready, warns of nothing, and ends when it is told to.
func TestOrdinaryUser(t *testing.T) {
	home := t.TempDir()
	cmd, out := ordinary(t, home, "up", "--data-dir", filepath.Join(home, "data"), "--listen", "127.0.0.1:0")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually.Sees(t, time.Minute, "it is ready", func() (bool, any) {
		text := out.String()
		return strings.Contains(text, "not a node"), text
	})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	said := out.String()
	for line := range strings.Lines(said) {
		node := strings.HasPrefix(line, "this machine is not a node: ")
		if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") || node && !strings.Contains(line, "rootlesskit") {
			t.Errorf("it says: %s", line)
		}
	}
}

// TestOrdinaryNode: who asks for what needs root hears in one line how to go on.
func TestOrdinaryNode(t *testing.T) {
	home := t.TempDir()
	data := filepath.Join(home, "data")
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"up", "--node", "real", "--listen", "127.0.0.1:0", "--data-dir", data}, "rootlesskit"},
		{[]string{"up", "--node", "none", "--listen", "127.0.0.1:0", "--data-dir", "/var/lib/kloop-of-root"}, "--data-dir"},
		{[]string{"node", "--server", "https://127.0.0.1:1", "--token", "a", "--ca-hash", "sha256:" + strings.Repeat("0", 64),
			"--data-dir", data}, "rootlesskit"},
	} {
		cmd, out := ordinary(t, home, c.args...)
		err := cmd.Run()
		if text := out.String(); err == nil || !strings.Contains(text, c.says) || strings.Count(text, "\n") != 1 {
			t.Errorf("%v: %v, %s", c.args, err, text)
		}
	}
}

// A talk is what a process says, while it says it.
type talk struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *talk) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *talk) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}
