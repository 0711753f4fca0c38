//go:build unix

package httpapi

import "syscall"

// writeNow gives the kernel what it takes at once.
func writeNow(fd uintptr, b []byte) (int, error) { return syscall.Write(int(fd), b) }
