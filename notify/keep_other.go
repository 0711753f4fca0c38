//go:build !linux

package notify

import (
	"os"
	"syscall"
)

// Kept are none: there is no systemd.
func Kept(string) []*os.File { return nil }

// Keep keeps nothing: there is no systemd.
func Keep(string, ...syscall.Conn) error { return nil }
