package etcd

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/etcd/server/v3/storage/datadir"

	"github.com/kloop-dev/kloop/store"
)

// The end of the database that holds nothing is taken off before etcd reads all of it; what it holds is there as before.
func TestEmptyEndIsCut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s, err := Open(t.Context(), Config{Dir: dir, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}) // without a disk it does not grow ahead
	if err != nil {
		t.Fatal(err)
	}
	for i := range 500 {
		write(t, s, store.Write{Key: fmt.Sprint("/", i), Value: []byte("x")})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	looked := func() (seen examined, size int64) {
		t.Helper()
		seen, err := examine(dir)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(datadir.ToBackendFileName(dir))
		if err != nil {
			t.Fatal(err)
		}
		return seen, info.Size()
	}
	seen, before := looked()
	if before < 16<<20 || seen.used > 1<<20 {
		t.Fatalf("%d of %d bytes are used", seen.used, before)
	}
	if err := seen.cut(dir); err != nil {
		t.Fatal(err)
	}
	if again, size := looked(); size != seen.used || again.used != size || again.applied != seen.applied {
		t.Errorf("%d bytes of %d are left; used are %d", size, before, again.used)
	}
	page, err := openWith(t, Config{Dir: dir}).List(t.Context(), "/", "", 0, 0)
	if err != nil || len(page.KVs) != 500 {
		t.Errorf("%d keys, %v", len(page.KVs), err)
	}
}
