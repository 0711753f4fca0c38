//go:build e2e

package e2e

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// enter moves the present thread into a network namespace, for good.
func enter(ns string) error {
	runtime.LockOSThread()
	f, err := os.Open("/run/netns/" + ns)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
}
