package notify

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAwait(t *testing.T) {
	l, err := Listen()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range l.Env() {
		if path, ok := strings.CutPrefix(v, variable+"="); ok {
			t.Setenv(variable, path)
		}
	}
	if err := errors.Join(Status("making %d nodes", 3), Send("MAINPID=1\nSTATUS=starting"), Send(Ready)); err != nil {
		t.Fatal(err)
	}
	var said []string
	if err := l.Await(t.Context(), func(s string) { said = append(said, s) }); err != nil {
		t.Fatal(err)
	}
	if want := []string{"making 3 nodes", "starting"}; !slices.Equal(said, want) {
		t.Errorf("%q, want %q", said, want)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errors.New("it ended"))
	defer cancel()
	if err := l.Await(ctx, nil); err == nil || err.Error() != "it ended" {
		t.Errorf("got %v, want the cause", err)
	}
	path := os.Getenv(variable)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Error("the socket is left")
	}
	if err := Send(Ready); err == nil {
		t.Error("nobody listens, and no error")
	}
	t.Setenv(variable, "")
	if err := Send(Ready); err != nil {
		t.Errorf("without a socket: %v", err)
	}
}

// A process that was killed while it listened leaves its socket, which the next one that listens takes away. Those of others stay.
func TestSweep(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	listen := func() *Listener {
		l, err := Listen()
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	killed, lives := listen(), listen()
	if err := killed.conn.Close(); err != nil {
		t.Fatal(err)
	}
	last := listen()
	for _, c := range []struct {
		name  string
		of    *Listener
		there bool
	}{
		{"killed", killed, false},
		{"alive", lives, true},
		{"the last", last, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := os.Stat(c.of.dir); (err == nil) != c.there {
				t.Errorf("%s: %v, want it there: %t", c.of.dir, err, c.there)
			}
		})
	}
	if err := errors.Join(lives.Close(), last.Close()); err != nil {
		t.Error(err)
	}
}
