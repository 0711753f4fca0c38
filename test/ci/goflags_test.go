package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestFlagsOfAFolderWithSpaces compiles with the flags of a checkout in a folder whose name has spaces, alone and under a command.
func TestFlagsOfAFolderWithSpaces(t *testing.T) {
	scripts := filepath.Join(t.TempDir(), "my own code", "scripts")
	if err := os.MkdirAll(scripts, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"goflags", "toolexec"} {
		b, err := os.ReadFile(filepath.Join("..", "..", "scripts", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(scripts, name), b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, under := range []string{"", "nice -n 5"} {
		flags, err := exec.CommandContext(t.Context(), filepath.Join(scripts, "goflags"), under).Output()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "go", "build", "-o", os.DevNull, "../../internal/coldsort")
		cmd.Env = append(os.Environ(), "GOFLAGS="+strings.TrimSpace(string(flags)))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("under %q: %v\n%s", under, err, out)
		}
	}
}
