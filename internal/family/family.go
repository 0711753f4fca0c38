// Package family ends programs together with those that they started.
package family

import (
	"os/exec"
	"time"
)

// patience is for the output of a program that has ended, which a child that left its process group may hold open.
const patience = time.Second

// Command has a command of exec.CommandContext end with all that it started: when its context ends, its whole process group is killed, and
// Wait bears another second with others that have its output. Where there are no process groups, the program alone is killed.
func Command(cmd *exec.Cmd) *exec.Cmd {
	cmd.WaitDelay = patience
	group(cmd)
	return cmd
}
