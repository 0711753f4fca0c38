package etcd_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/store/etcd"
)

func TestSnapshotAndRestore(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir)
	s := open(t, dir)
	saved := snapshot(t, s)
	want, err := s.List(t.Context(), "/registry/", "", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	later, err := s.Write(t.Context(), store.Write{Key: "/registry/later", Value: []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	sources := map[string]string{
		"snapshot":        file(t, saved),
		"database itself": filepath.Join(dir, "member", "snap", "db"),
	}
	for name, from := range sources {
		t.Run(name, func(t *testing.T) {
			to := filepath.Join(t.TempDir(), "restored")
			if err := etcd.Restore(from, to); err != nil {
				t.Fatal(err)
			}
			if err := etcd.Restore(from, to); err == nil {
				t.Error("restored over data")
			}
			for range 2 { // as it is restored, and after a restart
				r := open(t, to)
				checkRestored(t, r, want, later)
				r.Close()
			}
		})
	}
}

func checkRestored(t *testing.T, s *etcd.Store, want store.Page, later int64) {
	t.Helper()
	got, err := s.List(t.Context(), "/registry/", "", len(want.KVs), 0)
	if err != nil || len(got.KVs) != len(want.KVs) {
		t.Fatalf("%d keys, %v; want %d", len(got.KVs), err, len(want.KVs))
	}
	for i, kv := range got.KVs {
		if kv.Key != want.KVs[i].Key || kv.ModRev != want.KVs[i].ModRev || !bytes.Equal(kv.Value, want.KVs[i].Value) {
			t.Errorf("%s at %d is restored as %s at %d", want.KVs[i].Key, want.KVs[i].ModRev, kv.Key, kv.ModRev)
		}
	}
	rev, err := s.Write(t.Context(), store.Write{Key: "/registry/new", Value: []byte("x")})
	if err == nil {
		_, err = s.Write(t.Context(), store.Write{Key: "/registry/new", Expect: rev})
	}
	if err != nil || rev <= later {
		t.Errorf("a write gets revision %d, which was given before (%d), %v", rev, later, err)
	}
	// Who saw the write that is lost must not go on as if nothing had happened.
	err = s.Watch(t.Context(), "/registry/", later, func(store.Batch) error { return errors.New("it goes on") })
	if !errors.Is(err, store.ErrCompacted) {
		t.Errorf("watch from before the restore: %v", err)
	}
}

func TestBrokenSnapshotIsRefused(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir)
	s := open(t, dir)
	good := snapshot(t, s)
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 1
	for name, data := range map[string][]byte{
		"empty": {}, "cut off": good[:len(good)-600], "flipped bit": flipped, "text": bytes.Repeat([]byte("not a database. "), 1024),
	} {
		t.Run(name, func(t *testing.T) {
			to := filepath.Join(t.TempDir(), "restored")
			if err := etcd.Restore(file(t, data), to); err == nil {
				t.Errorf("%s: restored", name)
			}
			if left, _ := filepath.Glob(filepath.Join(to, "*")); len(left) > 0 {
				t.Errorf("%s: %v is left behind", name, left)
			}
		})
	}
}

func snapshot(t *testing.T, s *etcd.Store) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.Snapshot(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func file(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "snapshot")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
