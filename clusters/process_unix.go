//go:build unix

package clusters

import (
	"os/exec"
	"syscall"
)

// supervised says that clusters by name can be made here.
func supervised() error { return nil }

// apart starts a process that signals to a terminal do not reach: they are for the supervisor, which passes them on in order.
func apart(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd.Start()
}

// detach has a process outlive the terminal that it is started from.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
