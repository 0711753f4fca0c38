package etcd_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/store/etcd"
	"github.com/kloop-dev/kloop/store/storetest"
)

func TestMember(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, t.TempDir()) })
}

// Writes are counted with the time that they took, refused ones too; reads are not.
func TestPace(t *testing.T) {
	s := open(t, t.TempDir())
	if n, took := s.Pace(); n != 0 || took != 0 {
		t.Errorf("%d writes and %v before the first", n, took)
	}
	before := time.Now()
	for range 3 {
		_, _ = s.Write(t.Context(), store.Write{Key: "/a", Value: []byte("x")}) // all but the first are conflicts
	}
	if _, _, err := s.Get(t.Context(), "/a"); err != nil {
		t.Fatal(err)
	}
	if n, took := s.Pace(); n != 3 || took <= 0 || took > time.Since(before) {
		t.Errorf("%d writes in %v, want 3 in less than %v", n, took, time.Since(before))
	}
}

// open starts a member that does not wait for the disk: that may take seconds, and calls end after seven.
func open(tb testing.TB, dir string) *etcd.Store {
	tb.Helper()
	s, err := etcd.Open(tb.Context(), etcd.Config{Dir: dir, Log: quiet(tb), NoSync: true})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}

// quiet logs to the test.
func quiet(tb testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(tb.Output(), nil))
}
