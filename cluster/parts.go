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
	r := &running{log: log, stopped: make(chan string, len(list))}
	err := r.run(ctx, started, list)
	if own := r.stop(); own != nil {
		return own // says more than that something stopped
	}
	return err
}

// running are the parts that have been started.
type running struct {
	log     *slog.Logger
	undo    []func() error // in the order of their start
	stopped chan string    // names of parts that have ended; it has room for all
}

// run starts the parts and returns when ctx ends, with nil, or when one of them ends.
func (r *running) run(ctx context.Context, started func(), list []part) error {
	for _, p := range list {
		if err := r.start(ctx, p); err != nil || ctx.Err() != nil {
			return err
		}
	}
	started()
	select {
	case <-ctx.Done():
		return nil
	case name := <-r.stopped:
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("%s stopped on its own", name)
	}
}

// start runs a part and waits until it is ready. The part outlives ctx: it ends when it is stopped, in its turn.
func (r *running) start(ctx context.Context, p part) error {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ready, done := make(chan struct{}), make(chan error, 1)
	begin := time.Now()
	go func() {
		done <- p.Run(own, func() { close(ready) })
		r.stopped <- p.Name
	}()
	r.undo = append(r.undo, func() error {
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
		r.log.Debug("part is ready", "part", p.Name, "took", time.Since(begin))
		return nil
	case <-ctx.Done():
		return nil
	case name := <-r.stopped:
		return fmt.Errorf("%s stopped while %s was starting", name, p.Name)
	}
}

// stop ends the parts, last to first, and returns what went wrong in them.
func (r *running) stop() error {
	var errs []error
	for i := len(r.undo) - 1; i >= 0; i-- {
		errs = append(errs, r.undo[i]())
	}
	return errors.Join(errs...)
}
