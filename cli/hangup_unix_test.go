//go:build unix

package cli

import (
	"os"
	"syscall"
	"testing"
)

// hangup sends this process the signal by which services are told to read their settings again.
func hangup(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}
