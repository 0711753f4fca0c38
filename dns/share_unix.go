//go:build unix && !linux

package dns

import "golang.org/x/sys/unix"

// share has several sockets take the questions to one address.
func share(fd uintptr) error {
	return unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
}
