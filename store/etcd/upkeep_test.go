package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/kloop-dev/kloop/store"
)

func openWith(t *testing.T, c Config) *Store {
	t.Helper()
	c.Log, c.NoSync = slog.New(slog.NewTextHandler(t.Output(), nil)), true // a disk may take seconds, and calls end after seven
	s, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func write(t *testing.T, s *Store, w store.Write) int64 {
	t.Helper()
	rev, err := s.Write(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

func TestCompactionKeepsOneRound(t *testing.T) {
	s := openWith(t, Config{Dir: t.TempDir()})
	c := &compaction{store: s}
	var at []int64 // revision at the end of each round
	for i := range 4 {
		write(t, s, store.Write{Key: fmt.Sprint("/", i), Value: []byte("x")})
		if err := c.round(t.Context()); err != nil {
			t.Fatal(err)
		}
		rev, _ := s.Revision(t.Context())
		at = append(at, rev)
	}
	for round, rev := range at {
		_, err := s.List(t.Context(), "/", "", 0, rev)
		if gone := errors.Is(err, store.ErrCompacted); gone != (round < 2) {
			t.Errorf("history of round %d, seen from round 3: %v", round, err)
		}
	}
}

func TestHistoryIsCompactedInTime(t *testing.T) {
	s := openWith(t, Config{Dir: t.TempDir(), Keep: 10 * time.Millisecond})
	old := write(t, s, store.Write{Key: "/a", Value: []byte("x")})
	rev, err := old, error(nil)
	for err == nil && t.Context().Err() == nil {
		rev = write(t, s, store.Write{Key: "/a", Value: []byte("x"), Expect: rev})
		_, err = s.List(t.Context(), "/", "", 0, old)
	}
	if !errors.Is(err, store.ErrCompacted) {
		t.Error(err)
	}
}

// A store without space takes writes again when history can go, and says so when none can.
func TestSpace(t *testing.T) {
	t.Parallel()
	s := openWith(t, Config{Dir: t.TempDir(), Quota: 24 << 20})
	value, rev := make([]byte, 1<<20), int64(0)
	var err error
	for n := 0; err == nil && n < 100; n++ {
		var next int64
		if next, err = s.Write(t.Context(), store.Write{Key: "/history", Value: value, Expect: rev}); err == nil {
			rev = next
		}
	}
	if !errors.Is(err, store.ErrNoSpace) {
		t.Fatalf("quota exceeded: %v", err)
	}
	// The write that makes the file too large is done, and answered with the error: that it failed is not known.
	if kv, _, err := s.Get(t.Context(), "/history"); err != nil || kv.ModRev != rev && kv.ModRev != rev+1 {
		t.Fatalf("read without space, after revision %d: %v", rev, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	for errors.Is(err, store.ErrNoSpace) && ctx.Err() == nil {
		_, err = s.Write(ctx, store.Write{Key: "/more", Value: value})
	}
	if err != nil {
		t.Fatalf("history went, but: %v", err)
	}
	for n := 0; n < 100 && err == nil; n++ {
		_, err = s.Write(ctx, store.Write{Key: fmt.Sprint("/live/", n), Value: value})
		if errors.Is(err, store.ErrNoSpace) {
			err = s.emergency(ctx) // holes in the file count as well
		}
	}
	if !errors.Is(err, store.ErrNoSpace) {
		t.Fatalf("full of live data: %v", err)
	}
	page, err := s.List(t.Context(), "/live/", "", 1, 0)
	if err != nil || len(page.KVs) == 0 {
		t.Fatalf("read without space: %v", err)
	}
	if _, err := s.Write(t.Context(), store.Write{Key: page.KVs[0].Key, Expect: page.KVs[0].ModRev}); err != nil {
		t.Errorf("delete without space: %v", err)
	}
}

func TestWasteful(t *testing.T) {
	tests := []struct {
		size, live int64
		want       bool
	}{
		{32 << 20, 1 << 20, false},
		{128 << 20, 63 << 20, true},
		{128 << 20, 65 << 20, false},
		{8 << 30, 1 << 30, true},
	}
	for _, tt := range tests {
		if got := wasteful(tt.size, tt.live); got != tt.want {
			t.Errorf("%d of %d bytes live: %v", tt.live, tt.size, got)
		}
	}
}
