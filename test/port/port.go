// Package port holds addresses for tests that stop a server and start it again at the same place.
package port

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
)

// Held is an address on the loopback that belongs to the test until it ends, listened at or not. The system gives its port to
// nobody who asks for any port, for a server or a connection; who names it may listen at it, as often as wanted, in this process
// or another. A port that was merely free a moment ago may be somebody else's by the time that it is listened at.
func Held(t testing.TB) string {
	t.Helper()
	fd, err := socket()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	// A socket that is bound and never listens is in nobody's way who allows sharing, as servers in Go do.
	err = errors.Join(syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1),
		syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	if err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint("127.0.0.1:", at.(*syscall.SockaddrInet4).Port)
}

func socket() (int, error) {
	syscall.ForkLock.RLock() // no child inherits it
	defer syscall.ForkLock.RUnlock()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	return fd, err
}
