//go:build unix

package family

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"testing"
)

// TestCommand: a program whose child would run for an hour is over when its context is, and so is the child, which has a pipe of ours.
func TestCommand(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	held, holds, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	cmd := Command(exec.CommandContext(ctx, "sh", "-c", "sleep 3600 & echo started; wait"))
	cmd.ExtraFiles = []*os.File{holds}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := holds.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := cmd.Wait(); err == nil {
		t.Error("a program that was killed ended well")
	}
	if _, err := io.ReadAll(held); err != nil { // ends with the last who has the other end
		t.Error(err)
	}
}
