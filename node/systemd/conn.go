package systemd

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// A conn is a connection to a bus, for one goroutine.
type conn struct {
	c       *net.UnixConn
	serial  uint32
	waiting []message // signals that came while an answer was awaited
	buf     []byte    // received and not yet read
	fds     []int     // received and not yet taken
}

// patience bounds what a bus may take for an answer.
const patience = 25 * time.Second

// dial connects to the bus at a socket, and says who calls.
func dial(ctx context.Context, socket string) (*conn, error) {
	var d net.Dialer
	raw, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("reach the system bus: %w", err)
	}
	c := &conn{c: raw.(*net.UnixConn)}
	if err := c.greet(ctx); err != nil {
		c.close()
		return nil, fmt.Errorf("greet the system bus: %w", err)
	}
	return c, nil
}

func (c *conn) close() {
	_ = c.c.Close() // nothing is left to be sent
	for _, fd := range c.fds {
		_ = unix.Close(fd)
	}
}

// greet authenticates by the user of this process, agrees on file descriptors, and has the bus name the connection.
func (c *conn) greet(ctx context.Context) error {
	defer c.until(ctx, time.Now().Add(patience))()
	uid := hex.EncodeToString([]byte(strconv.Itoa(os.Getuid())))
	for _, step := range []struct{ say, want string }{{"\x00AUTH EXTERNAL " + uid, "OK "}, {"NEGOTIATE_UNIX_FD", "AGREE_UNIX_FD"},
		{"BEGIN", ""}} {
		if _, err := c.c.Write([]byte(step.say + "\r\n")); err != nil {
			return err
		}
		if step.want == "" {
			continue
		}
		line, err := c.line()
		if err != nil {
			return err
		}
		if !bytes.HasPrefix(line, []byte(step.want)) {
			return fmt.Errorf("it answers %q", line)
		}
	}
	_, err := c.call(ctx, message{path: "/org/freedesktop/DBus", iface: "org.freedesktop.DBus", member: "Hello", dest: "org.freedesktop.DBus"})
	return err
}

func (c *conn) line() ([]byte, error) {
	const longest = 4096
	var line []byte
	for one := make([]byte, 1); len(line) < longest; {
		if _, err := c.c.Read(one); err != nil {
			return nil, err
		}
		if line = append(line, one[0]); bytes.HasSuffix(line, []byte("\r\n")) {
			return bytes.TrimSpace(line), nil
		}
	}
	return nil, errMalformed
}

// until has reads and writes end with ctx, and at the time, unless that is zero.
func (c *conn) until(ctx context.Context, at time.Time) (done func()) {
	_ = c.c.SetDeadline(at) // fails on closed connections, whose reads fail too
	stop := context.AfterFunc(ctx, func() { _ = c.c.SetDeadline(time.Unix(1, 0)) })
	return func() { stop() }
}

// A refusal is an answer that says no.
type refusal struct{ member, name, text string }

func (r *refusal) Error() string { return r.member + ": " + r.name + ": " + r.text }

// call sends a call and returns its answer. Signals that come before it are kept.
func (c *conn) call(ctx context.Context, m message, args ...any) (message, error) {
	defer c.until(ctx, time.Now().Add(patience))()
	c.serial++
	m.kind, m.serial = methodCall, c.serial
	if _, err := c.c.Write(m.bytes(args...)); err != nil {
		return m, err
	}
	for {
		answer, err := c.receive()
		switch {
		case err != nil:
			return m, fmt.Errorf("%s: %w", m.member, errors.Join(err, ctx.Err()))
		case answer.kind == signal:
			if len(c.waiting) < 100 {
				c.waiting = append(c.waiting, answer)
			}
		case answer.reply != m.serial:
		case answer.kind == failure:
			text, _ := answer.first().(string)
			return m, &refusal{m.member, answer.failed, text}
		default:
			return answer, nil
		}
	}
}

// next waits for a signal until ctx ends.
func (c *conn) next(ctx context.Context) (message, error) {
	defer c.until(ctx, time.Time{})()
	for {
		if len(c.waiting) > 0 {
			m := c.waiting[0]
			c.waiting = c.waiting[1:]
			return m, nil
		}
		m, err := c.receive()
		if err != nil {
			return m, errors.Join(err, ctx.Err())
		}
		if m.kind == signal {
			return m, nil
		}
	}
}

// receive reads the next message.
func (c *conn) receive() (m message, err error) {
	for {
		if len(c.buf) >= 16 {
			_, total, err := size(c.buf)
			if err != nil {
				return m, err
			}
			if len(c.buf) >= total {
				m, err := parse(bytes.Clone(c.buf[:total]))
				c.buf = c.buf[total:]
				return m, err
			}
		}
		part, oob := make([]byte, 4096), make([]byte, unix.CmsgSpace(16*4))
		n, on, _, _, err := c.c.ReadMsgUnix(part, oob)
		if err != nil {
			return m, err
		}
		if n == 0 && on == 0 {
			return m, errors.New("the bus closed the connection")
		}
		c.buf = append(c.buf, part[:n]...)
		list, err := unix.ParseSocketControlMessage(oob[:on])
		if err != nil {
			return m, err
		}
		for i := range list {
			if fds, err := unix.ParseUnixRights(&list[i]); err == nil {
				c.fds = append(c.fds, fds...)
			}
		}
	}
}

// file takes the file that came with the last answer; nil: none did.
func (c *conn) file(name string) *os.File {
	if len(c.fds) == 0 {
		return nil
	}
	fd := c.fds[0]
	c.fds = c.fds[1:]
	unix.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), name)
}
