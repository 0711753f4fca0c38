package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// stormRest bounds the time that a server may take to forget a storm.
const stormRest = time.Minute

// storms measures what is left of the memory that a storm took when it has been over for a minute: watches that open and end, definitions
// and objects that are made and deleted.
func storms(ctx context.Context, b *bench) error {
	if len(b.processes) == 0 {
		return errors.New("the server's processes are not known: say --pid")
	}
	ns, remove, err := b.space(ctx)
	if err != nil {
		return err
	}
	defer remove()
	path := "/api/v1/namespaces/" + ns + "/configmaps"
	if err := b.forgets(ctx, fmt.Sprintf("%d watches", b.stormWatches), func() error { return b.openWatches(ctx, path) }); err != nil {
		return err
	}
	if err := b.forgets(ctx, fmt.Sprintf("%d definitions", definitions), func() error { return b.defineAndForget(ctx) }); err != nil {
		return err
	}
	return b.forgets(ctx, fmt.Sprintf("%d objects", b.stormObjects), func() error {
		_, _, err := b.storm(ctx, 32, b.stormObjects, func(i int) call {
			return call{method: "POST", path: path, body: []byte(configMap(i, 0))}
		})
		if err != nil {
			return err
		}
		_, _, err = b.storm(ctx, 32, b.stormObjects, func(i int) call {
			return call{method: "DELETE", path: fmt.Sprintf("%s/map-%05d", path, i)}
		})
		return err
	})
}

// forgets notes the memory before the storm, at its end, and a minute later.
func (b *bench) forgets(ctx context.Context, name string, storm func() error) error {
	before, _ := b.memory()
	if err := storm(); err != nil {
		return err
	}
	peak, _ := b.memory()
	select {
	case <-time.After(stormRest):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	after, _ := b.memory()
	fmt.Printf("  MiB resident: %.0f before, %.0f at the end of the storm, %.0f a minute later\n", before, peak, after)
	b.figure("memory a minute after "+name+", of what it was before", after/before, "times")
	return nil
}

// defineAndForget makes definitions, waits until they are served, and deletes them.
func (b *bench) defineAndForget(ctx context.Context) error {
	more := fields(100)
	_, _, err := b.storm(ctx, 16, definitions, func(i int) call { return declare(i, more) })
	if err != nil {
		return err
	}
	if err := b.served(ctx); err != nil {
		return err
	}
	_, _, err = b.storm(ctx, 16, definitions, func(i int) call {
		return call{method: "DELETE", path: fmt.Sprintf("%s/kind%04ds.bench.example.com", definitionsPath, i)}
	})
	if err != nil {
		return err
	}
	return b.poll(ctx, "GET", fmt.Sprintf("%s/kind%04ds.bench.example.com", definitionsPath, definitions-1), http.StatusNotFound)
}

// openWatches opens the watches, each on a connection of its own, and ends them when all stand.
func (b *bench) openWatches(ctx context.Context, path string) error {
	var open, ended sync.WaitGroup
	errs := make([]error, b.stormWatches)
	gate, end := make(chan struct{}, 16), make(chan struct{})
	all, targets := make([]*target, b.stormWatches), b.targets("h2")
	for i := range b.stormWatches {
		open.Add(1)
		ended.Go(func() {
			gate <- struct{}{}
			stands := sync.OnceFunc(func() { <-gate; open.Done() })
			defer stands()
			all[i] = targets()
			errs[i] = all[i].hold(ctx, call{method: "GET", path: path + "?watch=true&resourceVersion=0"}, func() {
				stands()
				<-end
			})
		})
	}
	open.Wait()
	close(end)
	ended.Wait()
	for _, t := range all {
		t.http2.CloseIdleConnections()
	}
	return errors.Join(errs...)
}

// hold opens a stream, calls f and closes it.
func (t *target) hold(ctx context.Context, q call, f func()) error {
	c, err := t.dial(ctx)
	if err != nil {
		return err
	}
	resp, err := c.open(ctx, q)
	if err != nil {
		return err
	}
	defer c.leave(resp)
	if resp.StatusCode != http.StatusOK {
		return refusal(q, resp)
	}
	f()
	return nil
}
