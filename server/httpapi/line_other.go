//go:build !unix

package httpapi

import "syscall"

// writeNow gives the kernel nothing: here a write to a socket waits, so that all of it is kept and written by the line's goroutine.
func writeNow(uintptr, []byte) (int, error) { return 0, syscall.EAGAIN }
