package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/kloop-dev/kloop/cli/ask"
)

// kubectl runs the kubectl beside kloop, or the one on the path. It speaks to the cluster that the other
// commands speak to.
func kubectl(ctx context.Context, std stdio, args []string) error {
	path, err := findKubectl()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = std.in, std.out, std.err
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Env = os.Environ()
	if rules, _ := which(""); rules.ExplicitPath != "" {
		cmd.Env = append(cmd.Env, "KUBECONFIG="+rules.ExplicitPath)
	}
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if _, _, nowhere := chosen("", ""); errors.Is(nowhere, ask.ErrNowhere) { // it may have asked for what needs none, so it ran all the same
			fmt.Fprintln(std.err, "kloop kubectl:", nowhere)
		}
		return exitError(exit.ExitCode())
	}
	return err
}

func findKubectl() (string, error) {
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), "kubectl"+exe)
		if _, err := os.Stat(beside); err == nil {
			return beside, nil
		}
	}
	path, err := exec.LookPath("kubectl")
	if err != nil {
		return "", fmt.Errorf("there is no kubectl beside kloop and none on the path; make build puts one there: %w", err)
	}
	return path, nil
}
