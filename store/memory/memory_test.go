package memory

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kloop-dev/kloop/store"
)

func TestBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, start := New(), time.Now()
		var gone time.Duration
		ended := make(chan error)
		go func() {
			ended <- s.Watch(t.Context(), "/e/", 0, func(b store.Batch) error {
				for _, e := range b.Events {
					if e.KV == nil {
						gone = time.Since(start)
					}
				}
				return nil
			})
		}()
		if _, err := s.Write(t.Context(), store.Write{Key: "/e/a", Value: []byte("1"), TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour) // simulated
		synctest.Wait()
		if gone != time.Hour {
			t.Errorf("key went after %v", gone)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, store.ErrClosed) {
			t.Errorf("watch ended with %v", err)
		}
	})
}

// Closing a store leaves no timer and no goroutine behind; synctest fails otherwise.
func TestCloseWithDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		write(t, s, store.Write{Key: "/a", Value: []byte("1"), TTL: time.Hour})
		s.Close()
	})
}

func TestHistoryIsBounded(t *testing.T) {
	tests := []struct {
		name   string
		limits limits
		want   func(*Store) bool
	}{
		{"number", limits{changes: 100, bytes: 1 << 30, age: time.Hour}, func(s *Store) bool { return len(s.history.changes) <= 100 }},
		{"bytes", limits{changes: 1 << 30, bytes: 1000, age: time.Hour}, func(s *Store) bool { return s.history.bytes <= 1000 }},
		{"age", limits{changes: 1 << 30, bytes: 1 << 30, age: time.Minute}, func(s *Store) bool {
			n := len(s.history.changes)
			return 60 <= n && n <= 70
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New()
				s.history.limits = tt.limits
				revs := map[string]int64{}
				for i := range 1000 {
					key := fmt.Sprint("/", i%3)
					revs[key] = write(t, s, store.Write{Key: key, Value: make([]byte, 20), Expect: revs[key]})
					time.Sleep(time.Second) // simulated
				}
				if !tt.want(s) {
					t.Errorf("%d changes with %d bytes are kept", len(s.history.changes), s.history.bytes)
				}
				if n := versions(s); n > len(s.history.changes)+3 {
					t.Errorf("%d versions are kept for %d changes", n, len(s.history.changes))
				}
			})
		})
	}
}

func TestDeletedKeysAreForgotten(t *testing.T) {
	s := New()
	for i := range 100 {
		key := fmt.Sprint("/", i)
		rev := write(t, s, store.Write{Key: key, Value: []byte("x")})
		write(t, s, store.Write{Key: key, Expect: rev})
	}
	if err := s.Compact(t.Context(), s.rev); err != nil {
		t.Fatal(err)
	}
	if s.items.Len() != 0 || s.history.bytes != 0 {
		t.Errorf("%d items and %d bytes of history are left", s.items.Len(), s.history.bytes)
	}
}

func versions(s *Store) (n int) {
	s.items.Ascend(func(it *item) bool { n += len(it.versions); return true })
	return n
}

func write(tb testing.TB, s *Store, w store.Write) int64 {
	tb.Helper()
	rev, err := s.Write(context.Background(), w)
	if err != nil {
		tb.Fatal(err)
	}
	return rev
}

func BenchmarkWrite(b *testing.B) {
	s, value := New(), make([]byte, 1500)
	for i := range 10_000 {
		write(b, s, store.Write{Key: fmt.Sprintf("/registry/pods/default/pod-%d", i), Value: value})
	}
	kv, _, _ := s.Get(b.Context(), "/registry/pods/default/pod-77")
	rev := kv.ModRev
	b.ResetTimer()
	b.ReportAllocs()
	for b.Loop() {
		rev = write(b, s, store.Write{Key: "/registry/pods/default/pod-77", Value: value, Expect: rev})
	}
}
