// Package systemd asks systemd for two things over D-Bus: systemd-logind to hold back the shutdown of the machine, by its inhibitor locks
// (https://systemd.io/INHIBITOR_LOCKS), and systemd itself for slices, which are groups of processes. It speaks the little of D-Bus that
// this takes; a library for all of it weighs 370 KB.
package systemd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/kloop-dev/kloop/internal/atomicfile"
)

// Socket is the path of the system bus's socket.
const Socket = "/run/dbus/system_bus_socket"

// A Logind is a connection to systemd-logind, for one goroutine.
type Logind struct {
	c *conn
	// DropIns is the directory of logind's additional configuration.
	DropIns string
}

var manager = message{path: "/org/freedesktop/login1", iface: "org.freedesktop.login1.Manager", dest: "org.freedesktop.login1"}

func (m message) named(member string) message {
	m.member = member
	return m
}

// Connect reaches logind through the bus at a socket, and asks to be told of shutdowns. An error: there is none.
func Connect(ctx context.Context, socket string) (*Logind, error) {
	c, err := dial(ctx, socket)
	if err != nil {
		return nil, err
	}
	l := &Logind{c: c, DropIns: "/etc/systemd/logind.conf.d"}
	bus := message{path: "/org/freedesktop/DBus", iface: "org.freedesktop.DBus", member: "AddMatch", dest: "org.freedesktop.DBus"}
	_, err = c.call(ctx, bus, "type='signal',interface='"+manager.iface+"',member='PrepareForShutdown',path='"+manager.path+"'")
	if err == nil {
		_, err = l.Delay(ctx)
	}
	if err != nil {
		c.close()
		return nil, fmt.Errorf("reach logind: %w", err)
	}
	return l, nil
}

// Close ends the connection. Locks that were taken last until they are closed themselves.
func (l *Logind) Close() { l.c.close() }

// Delay tells for how long logind lets locks hold back a shutdown.
func (l *Logind) Delay(ctx context.Context) (time.Duration, error) {
	m := message{path: manager.path, iface: "org.freedesktop.DBus.Properties", member: "Get", dest: manager.dest}
	answer, err := l.c.call(ctx, m, manager.iface, "InhibitDelayMaxUSec")
	if err != nil {
		return 0, err
	}
	us, ok := answer.first().(uint64)
	if !ok || us > uint64(24*time.Hour/time.Microsecond) {
		return 0, fmt.Errorf("InhibitDelayMaxUSec: %w", errMalformed)
	}
	return time.Duration(us) * time.Microsecond, nil
}

// Allow has logind let locks hold back a shutdown for at least so long: by a file of its configuration, which stays.
func (l *Logind) Allow(ctx context.Context, d time.Duration) error {
	have, err := l.Delay(ctx)
	if err != nil || have >= d {
		return err
	}
	if err := os.MkdirAll(l.DropIns, 0o755); err != nil {
		return fmt.Errorf("configure logind: %w", err)
	}
	seconds := strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
	text := "# written by kloop, for node.shutdownGracePeriod\n[Login]\nInhibitDelayMaxSec=" + seconds + "\n"
	if err := atomicfile.Write(filepath.Join(l.DropIns, "99-kloop.conf"), []byte(text), 0o644); err != nil { // half of it is another number
		return fmt.Errorf("configure logind: %w", err)
	}
	const hangup = int32(1)
	if _, err := l.c.call(ctx, first.named("KillUnit"), "systemd-logind.service", "all", hangup); err != nil {
		return fmt.Errorf("have logind read its configuration: %w", err)
	}
	for range 50 { // it reads it soon
		if have, err = l.Delay(ctx); err != nil || have >= d {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return fmt.Errorf("logind holds back shutdowns for %v, and not for %v as it was configured to", have, d)
}

// Hold takes a lock that holds back shutdowns until it is closed, for as long as logind lets it.
func (l *Logind) Hold(ctx context.Context) (io.Closer, error) {
	_, err := l.c.call(ctx, manager.named("Inhibit"), "shutdown", "kloop", "kloop needs time to end the pods of this node", "delay")
	if err != nil {
		return nil, fmt.Errorf("hold back shutdowns: %w", err)
	}
	if f := l.c.file("inhibitor lock"); f != nil {
		return f, nil
	}
	return nil, errors.New("hold back shutdowns: logind gave no lock")
}

// Next waits until a shutdown begins, or is called off.
func (l *Logind) Next(ctx context.Context) (down bool, err error) {
	for {
		m, err := l.c.next(ctx)
		if err != nil {
			return false, fmt.Errorf("wait for a shutdown: %w", err)
		}
		if m.member != "PrepareForShutdown" || m.iface != manager.iface {
			continue
		}
		if down, ok := m.first().(bool); ok {
			return down, nil
		}
	}
}
