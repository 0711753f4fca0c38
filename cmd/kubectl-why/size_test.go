package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// budget is what the program for krew may weigh, as scripts/release makes it.
const budget = 25_000_000

// The program that only reads has none of what checks and serves: the build tag reader leaves it out.
func TestSize(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubectl-why")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-tags", "reader,grpcnotrace",
		"-ldflags", "-s -w -funcalign=1", "-o", file, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > budget {
		t.Errorf("kubectl-why has %d bytes, and %d are allowed: go list -deps -tags reader ./cmd/kubectl-why", info.Size(), budget)
	}
	out, err := exec.CommandContext(t.Context(), file, "--kubeconfig", filepath.Join(t.TempDir(), "none")).CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 || len(out) == 0 {
		t.Errorf("without a server it ends with %v and says %q", err, out)
	}
}
