package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// budget is what a control plane without nodes may weigh, built as kloop's own programs are released: 35 MB, as bin/kloop's 60 are counted.
const budget = 35 << 20

func TestSize(t *testing.T) {
	if testing.Short() {
		t.Skip("it links a program")
	}
	file := filepath.Join(t.TempDir(), "files")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-tags", "grpcnotrace,nethttpomithttp2",
		"-ldflags", "-s -w -funcalign=1", "-o", file, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > budget {
		t.Errorf("the program has %d bytes, and %d are allowed: go list -deps ./examples/files says what it imports", info.Size(), budget)
	}
}
