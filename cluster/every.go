package cluster

import (
	"context"
	"time"
)

// every calls f at each tick until ctx ends. A call that takes longer than the pause has the next one come at once, and no more.
func every(ctx context.Context, pause time.Duration, f func()) {
	t := time.NewTicker(pause)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			f()
		}
	}
}
