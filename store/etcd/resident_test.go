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

func TestMapped(t *testing.T) {
	const table = `00400000-00452000 r-xp 00000000 08:02 173521      /usr/bin/kloop
7f0000000000-7f0000400000 r--s 00000000 08:02 17      /data/etcd/member/snap/db
7f1000000000-7f1000400000 rw-p 00000000 00:00 0
7f2000000000-7f2000400000 r--s 00000000 08:02 18      /other/data/etcd/member/snap/db
7f3000000000-7f3000400000 r--p 00000000 08:02 17      /data/etcd/member/snap/db
zz-7f3000400000 r--s 00000000 08:02 17      /data/etcd/member/snap/db
7f4000000000-7f4000001000 r--s 00000000 08:02 19      /data/etcd/member/snap/db (deleted)
`
	var got []string
	for from, to := range mapped([]byte(table), "/data/etcd/member/snap/db") {
		got = append(got, fmt.Sprintf("%x-%x", from, to))
	}
	if fmt.Sprint(got) != "[7f0000000000-7f0000400000]" {
		t.Errorf("mapped: %v", got)
	}
}

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
	before := resident(t, dir)
	if err := s.rest(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := resident(t, dir); before < 16<<10 || after > before/4 {
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

// resident is how many KiB of the database below dir this process has in memory, by smaps.
func resident(t *testing.T, dir string) (sum int) {
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
