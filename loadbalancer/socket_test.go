package loadbalancer

import (
	"errors"
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/internal/eventually"
)

// TestReadGoesOn: an error of the kernel, which a socket reports once, does not end the reading. Closing the socket does.
func TestReadGoesOn(t *testing.T) {
	free, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	to := free.LocalAddr().(*net.UDPAddr)
	free.Close()
	conn, err := net.DialUDP("udp4", nil, to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("x")); err != nil { // nobody listens there: the next read is refused
		t.Fatal(err)
	}
	file, err := conn.File()
	if err := errors.Join(err, conn.Close()); err != nil {
		t.Fatal(err)
	}
	s := &socket{file: file}
	if s.raw, err = file.SyscallConn(); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		_, _, err := s.read(make([]byte, 8))
		failed <- err
	}()
	peer, err := net.ListenPacket("udp4", to.String())
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	if _, err := peer.WriteTo([]byte("y"), conn.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "what comes after the refusal is read", func() bool {
		left, err := 0, error(nil)
		cerr := s.raw.Control(func(fd uintptr) { left, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
		return errors.Join(cerr, err) == nil && left == 0
	})
	s.close()
	if err := <-failed; err == nil || errors.Is(err, unix.ECONNREFUSED) {
		t.Error(err)
	}
}
