package main

import (
	"context"
	"errors"
	"time"
)

// settling is the time for which a fresh server may still be busy with itself.
const settling = 5 * time.Second

// idle watches what the server uses while nobody asks anything.
func idle(ctx context.Context, b *bench) error {
	if len(b.processes) == 0 {
		return errors.New("say with --pid whose CPU and memory to read")
	}
	if err := pause(ctx, settling); err != nil {
		return err
	}
	cpu, began := b.cpu(), time.Now()
	if err := pause(ctx, b.idle); err != nil {
		return err
	}
	b.figure("idle CPU", (b.cpu()-cpu)/time.Since(began).Seconds()*100, "% of a core")
	all, own := b.memory()
	b.figure("idle memory", all, "MiB")
	b.figure("idle memory, anonymous", own, "MiB")
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
