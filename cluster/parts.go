package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// A Part is one long-running piece of a process. Run returns when ctx ends or it cannot go on; it calls ready once others may rely on it.
type Part struct {
	Name string
	Run  func(ctx context.Context, ready func()) error
}

type part = Part

// stopLimit is the time that one part may take to stop before the process gives up on it.
const stopLimit = 20 * time.Second

// RunParts starts each part when the one before it is ready, then calls started, waits for ctx to end or any
// part to stop, and stops them last to first.
func RunParts(ctx context.Context, log *slog.Logger, started func(), list ...part) error {
	var undo []func() error
	stopped := make(chan string, len(list))

	up := func(p part) error {
		own, cancel := context.WithCancel(context.WithoutCancel(ctx))
		ready, done := make(chan struct{}), make(chan error, 1)
		begin := time.Now()
		go func() {
			done <- p.Run(own, func() { close(ready) })
			stopped <- p.Name
		}()
		undo = append(undo, func() error {
			cancel()
			select {
			case err := <-done:
				if err != nil && !errors.Is(err, context.Canceled) {
					return fmt.Errorf("%s: %w", p.Name, err)
				}
				return nil
			case <-time.After(stopLimit):
				return fmt.Errorf("%s: did not stop within %s", p.Name, stopLimit)
			}
		})
		select {
		case <-ready:
			log.Debug("part is ready", "part", p.Name, "took", time.Since(begin))
			return nil
		case <-ctx.Done():
			return nil
		case name := <-stopped:
			return fmt.Errorf("%s stopped while %s was starting", name, p.Name)
		}
	}

	err := func() error {
		for _, p := range list {
			if err := up(p); err != nil || ctx.Err() != nil {
				return err
			}
		}
		started()
		select {
		case <-ctx.Done():
			return nil
		case name := <-stopped:
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("%s stopped on its own", name)
		}
	}()
	var errs []error
	for i := len(undo) - 1; i >= 0; i-- {
		errs = append(errs, undo[i]())
	}
	if own := errors.Join(errs...); own != nil {
		return own // says more than that something stopped
	}
	return err
}
