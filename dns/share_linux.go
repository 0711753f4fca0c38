package dns

import "golang.org/x/sys/unix"

// waiting is the room for questions that wait in a socket while the process restarts: some thousands.
const waiting = 4 << 20

// share has several sockets take the questions to one address, and gives each room.
func share(fd uintptr) error {
	_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, waiting) // as root alone, and more than the machine's limit
	return unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
}
