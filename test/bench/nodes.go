package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// How agents behave, as upstream's kubelet by default, and how many pods they are given.
const (
	leaseEvery  = 10 * time.Second
	statusEvery = 5 * time.Minute
	nodeIdle    = 30 * time.Second // three rounds of leases
	nodePods    = 10_000
	podsOfNode  = 100 // at most
)

// nodes measures nodes whose agents are clients as real ones are: each has a connection of its own over HTTP/2, registers, renews its lease
// every ten seconds, tells its status every five minutes, watches its pods and four other things, and says of each pod that it gets that it
// runs and is ready. There are more and more of them, so that it shows how the cost grows.
func nodes(ctx context.Context, b *bench) error {
	ctx, stop := context.WithCancel(ctx)
	f := &fleet{b: b, targets: b.targets("h2"), failed: make(chan error, 1)}
	defer f.ended.Wait()
	defer stop()
	few := b.agents / 5
	for _, n := range []int{few, few * 2, b.agents} {
		if err := f.grow(ctx, n); err != nil {
			return err
		}
		if err := f.rest(ctx, n); err != nil {
			return err
		}
		if n == few {
			if err := f.fill(ctx, n); err != nil {
				return err
			}
		}
	}
	return f.fill(ctx, b.agents)
}

// A fleet is all agents.
type fleet struct {
	b       *bench
	targets func() *target
	size    int
	ended   sync.WaitGroup
	failed  chan error // the first failure
	want    int64
	ready   atomic.Int64 // pods
	all     chan struct{}
}

// grow registers nodes until there are n.
func (f *fleet) grow(ctx context.Context, n int) error {
	b, began, from := f.b, time.Now(), f.size
	cpu := b.cpu()
	gate := make(chan struct{}, 16)
	var open sync.WaitGroup
	errs := make([]error, n-from)
	for i := from; i < n; i++ {
		open.Go(func() {
			gate <- struct{}{}
			defer func() { <-gate }()
			errs[i-from] = f.start(ctx, fmt.Sprintf("bench-node-%05d", i))
		})
	}
	open.Wait()
	f.size = n
	if len(b.processes) > 0 {
		b.figure(fmt.Sprintf("%d nodes, server CPU of each that joins", n), (b.cpu()-cpu)/float64(n-from)*1e3, "ms")
	}
	fmt.Printf("  %d nodes joined in %.1f s\n", n-from, time.Since(began).Seconds())
	return errors.Join(append(errs, b.awaitNodes(ctx))...)
}

// rest measures what the nodes cost when nothing happens.
func (f *fleet) rest(ctx context.Context, n int) error {
	b := f.b
	if err := f.pause(ctx, 2*leaseEvery); err != nil {
		return err
	}
	cpu, began := b.cpu(), time.Now()
	if err := f.pause(ctx, nodeIdle); err != nil || len(b.processes) == 0 {
		return err
	}
	b.figure(fmt.Sprintf("%d nodes at rest, CPU", n), (b.cpu()-cpu)/time.Since(began).Seconds()*100, "% of a core")
	all, _ := b.memory()
	b.figure(fmt.Sprintf("%d nodes at rest, memory", n), all, "MiB")
	return nil
}

func (f *fleet) pause(ctx context.Context, d time.Duration) error {
	select {
	case err := <-f.failed:
		return err
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// fill makes pods and waits until the agents have said of all of them that they are ready.
func (f *fleet) fill(ctx context.Context, n int) error {
	b := f.b
	ns, remove, err := b.space(ctx)
	if err != nil {
		return err
	}
	remove = sync.OnceFunc(remove)
	defer remove()
	if err := b.awaitAccount(ctx, ns); err != nil {
		return err
	}
	f.ready.Store(0)
	pods := min(nodePods, podsOfNode*n)
	f.want, f.all = int64(pods), make(chan struct{})
	self := processes{os.Getpid()}
	metered := b.meter(ctx, fmt.Sprintf("%d nodes, a pod made, bound and ready", n))
	cpu, own, began := b.cpu(), self.cpu(), time.Now()
	if _, _, err := b.storm(ctx, bindWays, pods, func(i int) call {
		return podFor(ns, i, `"terminationGracePeriodSeconds":0,`)
	}); err != nil {
		return err
	}
	select {
	case <-f.all:
	case err := <-f.failed:
		return err
	case <-time.After(pollLimit):
		return fmt.Errorf("%d of %d pods are ready", f.ready.Load(), pods)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	took := time.Since(began).Seconds()
	b.figure(fmt.Sprintf("%d nodes, pods made, bound and ready", n), float64(pods)/took, "/s")
	if len(b.processes) > 0 {
		b.figure(fmt.Sprintf("%d nodes, pods made, bound and ready, server CPU", n), (b.cpu()-cpu)/float64(pods)*1e3, "ms")
	}
	metered(pods)
	fmt.Printf("  the clients' own CPU: %s ms a pod\n", number((self.cpu()-own)/float64(pods)*1e3))
	b.showMemory()
	remove()
	return b.poll(ctx, "GET", "/api/v1/namespaces/"+ns, http.StatusNotFound) // so that the next joins are not beside the end of these
}
