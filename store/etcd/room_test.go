package etcd

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/test/need"
)

// Little room is told once, and its end is; between them all writes are refused.
func TestRoom(t *testing.T) {
	var left uint64
	var broken error
	var told bytes.Buffer
	r := &room{free: func() (uint64, error) { return left, broken }, log: slog.New(slog.NewTextHandler(&told, nil))}
	for i, c := range []struct {
		name   string
		left   uint64
		refuse bool
		lines  int
	}{
		{"much", 1 << 40, false, 0},
		{"just enough", keptBack, false, 0},
		{"one byte too few", keptBack - 1, true, 1},
		{"none", 0, true, 1},
		{"one byte more is not yet enough",
			keptBack + 1, true, 1},
		{"enough again", keptBack + roomAgain, false, 2},
		{"nearly none", 1, true, 3},
	} {
		left = c.left
		err := r.take(roomBytes)
		if errors.Is(err, store.ErrNoSpace) != c.refuse || (err != nil) != c.refuse {
			t.Errorf("%s: %d: %d bytes: %v", c.name, i, c.left, err)
		}
		if n := strings.Count(told.String(), "\n"); n != c.lines {
			t.Errorf("%s: %d: %d lines are logged, want %d", c.name, i, n, c.lines)
		}
		if why, since := r.refuses(); (why != "") != c.refuse || since.IsZero() == c.refuse {
			t.Errorf("%s: %d: it says that writes are refused: %q since %s", c.name, i, why, since)
		}
		if r.tight() != c.refuse {
			t.Errorf("%s: %d: tight: %v", c.name, i, !c.refuse)
		}
	}
	left, broken = 1<<40, errors.New("no such file system")
	if err := r.take(roomBytes); err == nil {
		t.Error("what can't be looked at has room")
	}
	var none *room
	if why, _ := none.refuses(); none.take(1<<40) != nil || none.tight() || why != "" {
		t.Error("a cluster elsewhere has a disk")
	}
}

// On a full disk reads go on and writes are refused; when there is room again writes are taken.
func TestFullDisk(t *testing.T) {
	need.BeRoot(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=320m"); err != nil {
		need.Have(t, "mounts", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	s := openWith(t, Config{Dir: filepath.Join(dir, "etcd")})
	write(t, s, store.Write{Key: "/before", Value: []byte("x")})

	filler, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(filler, io.LimitReader(zeros{}, 1<<30))
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("filling the disk: %v", err)
	}
	if err := filler.Close(); err != nil {
		t.Fatal(err)
	}
	big := make([]byte, 1<<20)
	refused := 0
	for i := range 20 {
		_, err := s.Write(t.Context(), store.Write{Key: "/big" + string(rune('a'+i)), Value: big})
		if errors.Is(err, store.ErrNoSpace) {
			refused++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if refused < 14 {
		t.Errorf("%d of 20 writes to a full disk are refused", refused)
	}
	if kv, _, err := s.Get(t.Context(), "/before"); err != nil || string(kv.Value) != "x" {
		t.Errorf("read from a full disk: %v", err)
	}
	if err := os.Remove(filler.Name()); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; {
		if _, err = s.Write(t.Context(), store.Write{Key: "/after", Value: []byte("x")}); err == nil {
			break
		}
		if !errors.Is(err, store.ErrNoSpace) || time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// zeros has no end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
