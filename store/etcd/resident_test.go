package etcd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/test/need"
)

// A database that nobody reads takes no memory, and reads as before.
func TestDatabaseIsLetGo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := openWith(t, Config{Dir: dir})
	value := bytes.Repeat([]byte("x"), 1<<20)
	for i := range 16 {
		write(t, s, store.Write{Key: fmt.Sprint("/", i), Value: value})
	}
	readAll := func() {
		t.Helper()
		page, err := s.List(t.Context(), "/", "", 0, 0)
		if err != nil || len(page.KVs) != 16 || !bytes.Equal(page.KVs[15].Value, value) {
			t.Fatalf("%d keys, %v", len(page.KVs), err)
		}
	}
	s.member.server.Backend().ForceCommit()
	readAll()
	before := inMemory(t, dir)
	if err := s.rest(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := inMemory(t, dir); before < 16<<10 || after > before/4 {
		t.Errorf("%d KiB of the database were resident, %d are", before, after)
	}
	readAll()
}

// A use never waits for the upkeep: not for one that let go of the pages before it heard of the use, and not for one that
// has ended.
func TestUseDoesNotWait(t *testing.T) {
	s := &Store{member: &member{}, warm: make(chan struct{}, 1)}
	for range 3 {
		s.uses()
		s.touched.Store(false)
	}
	if len(s.warm) != 1 {
		t.Errorf("the upkeep is let know %d times", len(s.warm))
	}
}

// inMemory is how many KiB of the database below dir this process has in memory, by smaps.
func inMemory(t *testing.T, dir string) (sum int) {
	t.Helper()
	data, err := os.ReadFile("/proc/self/smaps")
	need.Have(t, need.Proc, err)
	path, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	in := false
	for line := range bytes.Lines(data) {
		f := bytes.Fields(line)
		if !bytes.HasSuffix(f[0], []byte(":")) {
			in = bytes.HasPrefix(f[len(f)-1], []byte(path)) && bytes.HasSuffix(f[len(f)-1], []byte("/snap/db"))
		}
		if in && string(f[0]) == "Rss:" {
			n, err := strconv.Atoi(string(f[1]))
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}
