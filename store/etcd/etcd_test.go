package etcd_test

import (
	"log/slog"
	"testing"

	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/store/etcd"
	"github.com/kloop-dev/kloop/store/storetest"
)

func TestMember(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, t.TempDir()) })
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
