//go:build linux

// Package netspace makes network namespaces for tests.
package netspace

import (
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/test/need"
)

// A Space is a network namespace of a test, by a file descriptor.
type Space int

// New makes a network namespace with its loopback up, until the test ends. It needs root.
func New(t testing.TB) Space {
	t.Helper()
	need.BeRoot(t)
	made, failed := make(chan Space, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		err := unix.Unshare(unix.CLONE_NEWNET)
		fd := -1
		if err == nil {
			fd, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}
		failed <- err
		made <- Space(fd)
	}()
	need.Have(t, need.Root, <-failed)
	s := <-made
	t.Cleanup(func() { unix.Close(int(s)) })
	s.Do(t, func() error { return Up("lo") })
	return s
}

// Run runs f in the namespace, on a thread of its own.
func (s Space) Run(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		err := unix.Setns(int(s), unix.CLONE_NEWNET)
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// Do is Run that must not fail.
func (s Space) Do(t testing.TB, f func() error) {
	t.Helper()
	if err := s.Run(f); err != nil {
		t.Fatal(err)
	}
}

// Up brings up an interface of the thread's namespace.
func Up(name string) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(l)
}
