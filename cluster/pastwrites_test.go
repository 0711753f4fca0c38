package cluster

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/kloop-dev/kloop/kit/whole"
	"github.com/kloop-dev/kloop/trail"
)

// TestWritesOf asks a server what its trail knows, as another one does.
func TestWritesOf(t *testing.T) {
	c, err := Start(context.Background(), Config{Kit: whole.Kit(), NoLoops: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	}()
	since := time.Now().Add(-time.Minute)
	own, err := c.door.trail.All(since, trail.MostTold, func(*trail.Write) bool { return true })
	if err != nil || len(own) == 0 {
		t.Fatalf("%d writes, %v", len(own), err)
	}
	told, err := c.door.past.writesOf(t.Context(), c.address, since)
	if err != nil || len(told) < len(own) || told[0].Rev != own[0].Rev || told[0].What != own[0].What {
		t.Errorf("%d writes of %d, %v", len(told), len(own), err)
	}
	if _, err := c.door.past.writesOf(t.Context(), "127.0.0.1:1", since); err == nil {
		t.Error("a server that is not there knows of writes")
	}
}
