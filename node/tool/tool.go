// Package tool runs programs of the node: mount, mkfs, fsck and their like.
package tool

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/kloop-dev/kloop/internal/family"
)

// limit bounds a run. A file system of many terabytes takes minutes to be made or checked.
const limit = 5 * time.Minute

// Run returns what a program said and its exit code; the error has both its name and its words.
func Run(ctx context.Context, name string, args ...string) (out string, code int, err error) {
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	cmd := family.Command(exec.CommandContext(ctx, name, args...)) // mount has others do the mounting
	text, err := cmd.CombinedOutput()
	out = strings.TrimSpace(string(text))
	if cmd.ProcessState != nil {
		code = cmd.ProcessState.ExitCode()
	}
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", name, err, strings.ReplaceAll(out, "\n", "; "))
	}
	return out, code, err
}

// Do runs a program that has nothing to tell when it does what it is to do.
func Do(ctx context.Context, name string, args ...string) error {
	_, _, err := Run(ctx, name, args...)
	return err
}
