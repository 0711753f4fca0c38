package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// How the storm of events is made: writers change objects as fast as they can.
const (
	watched = 50
	writes  = 2000
	writers = 16
)

// watch counts the events of many watchers of the same objects.
func watch(ctx context.Context, b *bench) error {
	ns, remove, err := b.space(ctx)
	if err != nil {
		return err
	}
	defer remove()
	path := "/api/v1/namespaces/" + ns + "/configmaps"
	if _, _, err := b.storm(ctx, 8, watched, func(i int) call {
		return call{method: "POST", path: path, body: []byte(configMap(i, 0))}
	}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	var ready, done sync.WaitGroup
	errs := make([]error, b.watchers)
	for i := range b.watchers {
		ready.Add(1)
		done.Go(func() {
			once := sync.OnceFunc(ready.Done)
			defer once()
			errs[i] = b.follow(ctx, path, once)
		})
	}
	ready.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	cpu, began := b.cpu(), time.Now()
	took, _, err := b.storm(ctx, writers, writes, func(i int) call {
		return call{method: "PUT", path: fmt.Sprintf("%s/map-%05d", path, i%watched), body: []byte(configMap(i%watched, i+1))}
	})
	if err != nil {
		return err
	}
	done.Wait()
	span, events := time.Since(began), float64(b.watchers*writes)
	if err := errors.Join(errs...); err != nil {
		return err
	}
	b.figure("watch events", events/span.Seconds(), "/s")
	if len(b.processes) > 0 {
		b.figure("watch, server CPU an event", (b.cpu()-cpu)/events*1e6, "µs")
	}
	fmt.Printf("  %d watchers, %d writes; of the writes:\n", b.watchers, writes)
	took.show()
	b.showMemory()
	return nil
}

// follow watches, calls ready when the watch stands, and returns when it has seen every write: a line for each
// object that is there and one for each change.
func (b *bench) follow(ctx context.Context, path string, ready func()) error {
	c, err := b.dial(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	stop := context.AfterFunc(ctx, c.close)
	defer stop()
	resp, err := c.open(ctx, call{method: "GET", path: path + "?watch=true&resourceVersion=0"})
	if err != nil {
		return err
	}
	defer c.leave(resp)
	if resp.StatusCode != 200 {
		return refusal(call{method: "WATCH", path: path}, resp)
	}
	buf := make([]byte, 16<<10)
	for lines := 0; lines < watched+writes; {
		n, err := resp.Body.Read(buf)
		if lines += bytes.Count(buf[:n], []byte("\n")); lines >= watched {
			ready()
		}
		switch {
		case lines >= watched+writes:
		case err == io.EOF:
			return fmt.Errorf("a watch ended after %d of %d events", lines, watched+writes)
		case err != nil:
			return err
		}
	}
	return nil
}
