package runtime

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestInstall has a package manager of the test's own say what it is asked for, and fail.
func TestInstall(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	var out bytes.Buffer
	if err := Install(t.Context(), &out); err == nil || !strings.Contains(err.Error(), "yourself") {
		t.Errorf("without a package manager: %v", err)
	}
	if text := missing("containerd").Error(); strings.Contains(text, "--install-runtime") || strings.Contains(text, "\n") {
		t.Error(text)
	}
	script := "#!/bin/sh\necho \"asked: $*\"\n"
	if err := os.WriteFile(filepath.Join(dir, "dnf"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if text := missing("containerd").Error(); !strings.Contains(text, "no containerd: dnf install -y containerd runc") {
		t.Error(text)
	}
	if err := Install(t.Context(), &out); err != nil || !strings.Contains(out.String(), "asked: install -y containerd runc") {
		t.Errorf("%v, %s", err, out.String())
	}
	if err := os.WriteFile(filepath.Join(dir, "dnf"), []byte(script+"exit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Install(t.Context(), &out); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("a package manager that fails: %v", err)
	}
}

func TestHoldServices(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy-rc.d")
	undo, err := holdServices(path)
	if err != nil {
		t.Fatal(err)
	}
	again, err := holdServices(path)
	if err != nil {
		t.Fatal(err)
	}
	if again(); !exists(path) {
		t.Error("what was there before was taken away")
	}
	if undo(); exists(path) {
		t.Error("it was left behind")
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
