package notify

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// inherited are the files that systemd kept, by name. They are taken over before this process starts others, which must not have them.
var inherited = struct {
	sync.Mutex
	files map[string][]*os.File
}{files: inherit()}

// maxKept bounds how many files are taken over.
const maxKept = 64

// inherit reads what sd_listen_fds(3) reads.
func inherit() map[string][]*os.File {
	if os.Getenv("LISTEN_PID") != strconv.Itoa(os.Getpid()) {
		return nil
	}
	n, _ := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	found, names := map[string][]*os.File{}, strings.Split(os.Getenv("LISTEN_FDNAMES"), ":")
	for i := range min(n, len(names), maxKept) {
		unix.CloseOnExec(3 + i)
		found[names[i]] = append(found[names[i]], os.NewFile(uintptr(3+i), names[i]))
	}
	return found
}

// Kept are the files that the process before this one left under a name. Whoever asks first has them.
func Kept(name string) []*os.File {
	inherited.Lock()
	defer inherited.Unlock()
	defer delete(inherited.files, name)
	return inherited.files[name]
}

// Keep has systemd hold connections for the next process of this service, however this one ends, in place of all that it holds under
// the name (FileDescriptorStoreMax of the unit). They stay open meanwhile. It does nothing where nobody listens.
func Keep(name string, list ...syscall.Conn) error {
	if err := Send("FDSTOREREMOVE=1\nFDNAME=" + name); err != nil || len(list) == 0 || os.Getenv(variable) == "" {
		return err
	}
	var fds []int
	for _, c := range list {
		raw, err := c.SyscallConn()
		if err == nil {
			err = raw.Control(func(fd uintptr) { fds = append(fds, int(fd)) })
		}
		if err != nil {
			return err
		}
	}
	return pass("FDSTORE=1\nFDNAME="+name, fds)
}

// pass sends files along with a state.
func pass(state string, fds []int) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		return err
	}
	if err := unix.Sendmsg(fd, []byte(state), unix.UnixRights(fds...), &unix.SockaddrUnix{Name: os.Getenv(variable)}, 0); err != nil {
		return fmt.Errorf("leave %d files with systemd: %w", len(fds), err)
	}
	return nil
}
