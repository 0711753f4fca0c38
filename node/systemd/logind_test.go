package systemd

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/internal/eventually"
	"github.com/kloop-dev/kloop/test/need"
)

// A fake is a logind on a bus.
type fake struct {
	*conn
	t      *testing.T
	delay  atomic.Uint64 // microseconds
	lock   atomic.Int32  // its end of the lock that was given last
	drop   string        // where it reads its configuration
	wanted chan []byte   // the arguments of the last lock that was asked for
}

// bus starts a bus of the test's own, and returns where it listens.
func bus(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("dbus-daemon")
	need.Have(t, "dbus-daemon", err)
	dir := t.TempDir()
	socket := filepath.Join(dir, "bus")
	conf := filepath.Join(dir, "conf")
	text := `<busconfig><type>session</type><listen>unix:path=` + socket + `</listen><auth>EXTERNAL</auth>
		<policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/></policy></busconfig>`
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "--nofork", "--nopidfile", "--config-file="+conf)
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	eventually.Sees(t, eventually.Patience, "the bus starts", func() (bool, error) {
		c, err := dial(t.Context(), socket)
		if err == nil {
			c.close()
		}
		return err == nil, err
	})
	return socket
}

// serve puts a logind on the bus, until the test ends.
func serve(t *testing.T, socket, drop string) *fake {
	t.Helper()
	c, err := dial(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{conn: c, t: t, drop: drop, wanted: make(chan []byte, 1)}
	f.delay.Store(5e6)
	for _, name := range []string{"org.freedesktop.login1", "org.freedesktop.systemd1"} {
		m := message{path: "/org/freedesktop/DBus", iface: "org.freedesktop.DBus", member: "RequestName", dest: "org.freedesktop.DBus"}
		if _, err := c.call(t.Context(), m, name, uint32(0)); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan struct{})
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() {
		stop()
		c.close()
		<-done
	})
	go func() {
		defer close(done)
		f.run(ctx)
	}()
	return f
}

func (f *fake) run(ctx context.Context) {
	defer f.until(ctx, time.Time{})()
	for {
		m, err := f.receive()
		if err != nil {
			return // the test is over
		}
		if m.kind == methodCall {
			f.answer(m)
		}
	}
}

func (f *fake) answer(m message) {
	f.serial++
	back := message{kind: methodReturn, serial: f.serial + 1000, reply: m.serial, dest: m.sender}
	var oob []byte
	switch m.member {
	case "Get":
		back.signature = "v"
		back.body = append([]byte{1, 't', 0, 0, 0, 0, 0, 0}, binary.LittleEndian.AppendUint64(nil, f.delay.Load())...)
	case "Inhibit":
		var ends [2]int
		if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
			f.t.Error(err)
		}
		f.lock.Store(int32(ends[0]))
		f.wanted <- m.body
		back.signature, back.fds, back.body, oob = "h", 1, make([]byte, 4), unix.UnixRights(ends[1])
		defer unix.Close(ends[1])
	case "KillUnit":
		text, err := os.ReadFile(filepath.Join(f.drop, "99-kloop.conf"))
		if err == nil && strings.Contains(string(text), "InhibitDelayMaxSec=31\n") {
			f.delay.Store(31e6)
		}
	case "Off", "On":
		f.serial++
		s := message{kind: signal, serial: f.serial + 1000, path: manager.path, iface: manager.iface, member: "PrepareForShutdown",
			signature: "b", body: []byte{byte(len(m.member) - 2), 0, 0, 0}}
		if _, err := f.c.Write(s.bytes()); err != nil {
			f.t.Error(err)
		}
	default:
		back.kind, back.failed = failure, "org.freedesktop.DBus.Error.UnknownMethod"
	}
	if _, _, err := f.c.WriteMsgUnix(back.bytes(), oob, nil); err != nil {
		f.t.Error(err)
	}
}

// A bus that others wrote understands what is sent, and what it sends is understood: locks come as files, shutdowns as signals.
func TestLogind(t *testing.T) {
	socket := bus(t)
	if _, err := Connect(t.Context(), socket); err == nil || !strings.Contains(err.Error(), "logind") {
		t.Errorf("without logind: %v", err)
	}
	f := serve(t, socket, filepath.Join(t.TempDir(), "logind.conf.d"))
	l, err := Connect(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.DropIns = f.drop
	if d, err := l.Delay(t.Context()); err != nil || d != 5*time.Second {
		t.Errorf("delay %v, %v", d, err)
	}
	if err := l.Allow(t.Context(), 4*time.Second); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(f.drop); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("configured although it was allowed: %v", err)
	}
	if err := l.Allow(t.Context(), 30500*time.Millisecond); err != nil {
		t.Error(err)
	}
	lock, err := l.Hold(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if what := <-f.wanted; !bytes.Contains(what, []byte("shutdown\x00")) || !bytes.Contains(what, []byte("delay\x00")) {
		t.Errorf("asked for %q", what)
	}
	end := os.NewFile(uintptr(f.lock.Load()), "lock")
	defer end.Close()
	if err := lock.Close(); err != nil {
		t.Error(err)
	}
	if n, err := end.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("the lock is still held: %d, %v", n, err)
	}
	other, err := dial(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	defer other.close()
	for _, c := range []struct {
		word string
		want bool
	}{{"Off", true}, {"On", false}} {
		t.Run(c.word, func(t *testing.T) {
			if _, err := other.call(t.Context(), manager.named(c.word)); err != nil {
				t.Fatal(err)
			}
			if down, err := l.Next(t.Context()); err != nil || down != c.want {
				t.Errorf("%s: %v, %v", c.word, down, err)
			}
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := l.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a wait that is over: %v", err)
	}
}

// What is no message is refused, however it ends.
func FuzzParse(f *testing.F) {
	f.Add(message{kind: methodReturn, serial: 1, reply: 2, signature: "s", body: []byte{1, 0, 0, 0, 'x', 0}}.bytes())
	f.Add(message{kind: signal, path: "/a", iface: "b.c", member: "d", signature: "b", body: []byte{1, 0, 0, 0}}.bytes())
	f.Add([]byte("B\x04\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := parse(b); err == nil {
			m.first()
		}
	})
}
