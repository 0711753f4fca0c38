package etcd

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/kloop-dev/kloop/store"
)

// Servers that share a cluster take turns: of two, only one compacts in each round.
func TestServersTakeTurns(t *testing.T) {
	endpoint := upstream(t, t.TempDir())
	var servers []*compaction
	for range 2 {
		s, err := Dial(t.Context(), Remote{Endpoints: []string{endpoint}, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		servers = append(servers, &compaction{store: s})
	}
	old := write(t, servers[0].store, store.Write{Key: "/registry/a", Value: []byte("x")})
	for round := range 4 {
		taken := 0
		for _, c := range servers {
			mine, err := c.takeTurn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if mine {
				taken++
			}
		}
		if taken != 1 {
			t.Errorf("%d servers took the turn of round %d", taken, round)
		}
	}
	for range 2 {
		for _, c := range servers {
			if err := c.round(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := servers[0].store.List(t.Context(), "/registry/", "", 0, old); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("history after all rounds: %v", err)
	}
}
