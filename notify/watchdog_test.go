package notify

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// A service that is watched says that it lives while it is well, and nothing while it is not.
func TestWatchdog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	t.Setenv(variable, path)
	t.Setenv("WATCHDOG_USEC", "20000000")
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	var ills []string
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 65*time.Second)
		defer cancel()
		n := 0
		Watchdog(ctx, func(ctx context.Context) error {
			switch n++; n {
			case 3:
				return errors.New("not well")
			case 4:
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return nil
		}, func(err error) { ills = append(ills, err.Error()) })
	})
	if want := []string{"not well", "no answer within 10s"}; !slices.Equal(ills, want) {
		t.Errorf("%q, want %q", ills, want)
	}
	// Looks at 0, 10, 20 and 30 s, of which the last took until 40; then at 40, 50 and 60.
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		buf := make([]byte, 100)
		if n, err := conn.Read(buf); err != nil || string(buf[:n]) != alive {
			t.Errorf("message %d: %q, %v", i, buf[:n], err)
		}
	}
}

func TestWatched(t *testing.T) {
	self := strconv.Itoa(os.Getpid())
	for _, tt := range []struct {
		us, pid string
		want    time.Duration
	}{
		{"", "", 0}, {"1000000", "", time.Second}, {"1000000", self, time.Second}, {"1000000", "1", 0}, {"-5", self, 0}, {"0", "", 0},
		{"x", "", 0}, {"9223372036854775807", "", 0}, {"99999999999999999999", "", 0},
	} {
		t.Run(tt.us, func(t *testing.T) {
			t.Setenv("WATCHDOG_USEC", tt.us)
			t.Setenv("WATCHDOG_PID", tt.pid)
			if got := Watched(); got != tt.want {
				t.Errorf("%q for %q: %v, want %v", tt.us, tt.pid, got, tt.want)
			}
		})
	}
}

// What a process starts does not speak for it.
func TestEnviron(t *testing.T) {
	t.Setenv("KLOOP_TEST", "kept")
	for _, name := range private {
		t.Setenv(name, "1")
	}
	env := Environ()
	if !slices.Contains(env, "KLOOP_TEST=kept") {
		t.Error("more than systemd's is gone")
	}
	for _, name := range private {
		if v := fmt.Sprint(name, "=1"); slices.Contains(env, v) {
			t.Errorf("%s is passed on", v)
		}
	}
}
