// Package notify speaks systemd's protocol of readiness (sd_notify): a service says that it is ready, or what it is doing, to the socket
// that NOTIFY_SOCKET names. systemd listens for a unit of Type=notify; Listener stands in its place for processes that kloop starts itself.
package notify

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The states that kloop speaks of, as sd_notify(3) names them.
const (
	Ready    = "READY=1"
	Stopping = "STOPPING=1"
	alive    = "WATCHDOG=1"
)

// variable names the socket.
const variable = "NOTIFY_SOCKET"

// private are the variables by which systemd speaks to one process. Another that has them speaks for it.
var private = []string{variable, "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}

// Environ is this process's environment for one that it starts, without what was said to this one alone.
func Environ() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(private, name)
	})
}

// Send tells who listens a state. It does nothing when nobody does, and blocks for a second at most.
func Send(state string) error {
	path := os.Getenv(variable)
	if path == "" {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("say to %s that %s: %w", path, state, err)
	}
	defer c.Close()
	if err := c.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	_, err = c.Write([]byte(state))
	return err
}

// Status tells in words what the process is doing.
func Status(format string, args ...any) error { return Send("STATUS=" + fmt.Sprintf(format, args...)) }

// A Listener receives the states of one process.
type Listener struct {
	dir  string
	conn *net.UnixConn
}

// Listen makes a socket in a directory of its own that only this user can reach. It removes those of processes that were killed while
// they listened.
func Listen() (*Listener, error) {
	sweep()
	dir, err := os.MkdirTemp("", "kloop-notify")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "s")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen for the state of a process: %w", err), os.RemoveAll(dir))
	}
	return &Listener{dir, conn}, nil
}

// sweep removes the sockets at which nobody listens any more.
func sweep() {
	sockets, _ := filepath.Glob(filepath.Join(os.TempDir(), "kloop-notify*", "s")) // the pattern is well formed
	for _, s := range sockets {
		if c, err := net.Dial("unixgram", s); err == nil {
			_ = c.Close()
		} else if errors.Is(err, syscall.ECONNREFUSED) {
			_ = os.RemoveAll(filepath.Dir(s)) // another may be at it, too
		}
	}
}

// Env is the environment of the process that is listened to: the caller's, with the socket.
func (l *Listener) Env() []string { return append(Environ(), variable+"="+filepath.Join(l.dir, "s")) }

// Await returns nil when the process says that it is ready. status is called with what it says before; nil: nobody wants to know.
// It returns the cause of ctx when that ends first.
func (l *Listener) Await(ctx context.Context, status func(string)) error {
	stop := context.AfterFunc(ctx, func() { _ = l.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	buf := make([]byte, 4096)
	for {
		n, err := l.conn.Read(buf)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return fmt.Errorf("listen for the state of a process: %w", err)
		}
		for line := range strings.SplitSeq(string(buf[:n]), "\n") {
			text, ok := strings.CutPrefix(line, "STATUS=")
			if ok && status != nil {
				status(text)
			}
			if line == Ready {
				return nil
			}
		}
	}
}

// Close removes the socket.
func (l *Listener) Close() error { return errors.Join(l.conn.Close(), os.RemoveAll(l.dir)) }
