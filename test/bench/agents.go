package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// How the pods of agents change: so many changes, with a pause after each.
const (
	agentChanges = 300
	agentPause   = 5 * time.Millisecond
	fewAgents    = 10
)

// agents measures what a change of a pod costs while agents watch the pods of their own nodes: few of them, then many. The
// change concerns one of them in both cases.
func agents(ctx context.Context, b *bench) error {
	ns, remove, err := b.space(ctx)
	if err != nil {
		return err
	}
	defer remove()
	if err := b.awaitAccount(ctx, ns); err != nil {
		return err
	}
	path := "/api/v1/namespaces/" + ns + "/pods"
	if _, _, err := b.storm(ctx, 1, fewAgents, func(i int) call { return podOn(path, i) }); err != nil {
		return err
	}
	few, err := b.agentsHear(ctx, path, fewAgents)
	if err != nil {
		return err
	}
	many, err := b.agentsHear(ctx, path, b.watchers)
	if err != nil || len(b.processes) == 0 {
		return err
	}
	b.figure(fmt.Sprintf("a pod's change, %d agents watch, server CPU", fewAgents), few, "ms")
	b.figure(fmt.Sprintf("a pod's change, %d agents watch, server CPU", b.watchers), many, "ms")
	b.figure("a pod's change, one more agent that it does not concern, server CPU", (many-few)/float64(b.watchers-fewAgents)*1e3, "µs")
	return nil
}

func podOn(path string, i int) call {
	return call{method: "POST", path: path, body: fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod",`+
		`"metadata":{"name":"on-%d"},"spec":{"nodeName":"bench-agent-%d","schedulerName":"nobody","terminationGracePeriodSeconds":0,`+
		`"containers":[{"name":"main","image":"registry.example/app:v1"}]}}`, i, i)}
}

// agentsHear returns the server's CPU for one change, in ms, while n agents watch, over connections of their own and HTTP/2.
func (b *bench) agentsHear(ctx context.Context, path string, n int) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	watching, end := context.WithCancel(ctx)
	defer end()
	var open, ended sync.WaitGroup
	var heard atomic.Int64
	errs := make([]error, n)
	gate := make(chan struct{}, 16) // handshakes at once
	targets := b.targets("h2")
	for i := range n {
		open.Add(1)
		ended.Go(func() {
			once := sync.OnceFunc(open.Done)
			defer once()
			gate <- struct{}{}
			q := call{method: "GET", accept: protobuf,
				path: fmt.Sprintf("/api/v1/pods?watch=true&resourceVersion=0&fieldSelector=spec.nodeName%%3Dbench-agent-%d", i)}
			errs[i] = agent(watching, targets(), q, func() { <-gate; once() }, &heard)
		})
	}
	open.Wait()
	if err := b.changes(ctx, path, fewAgents); err != nil { // so that the state is delivered before what counts
		return 0, err
	}
	before, cpu := heard.Load(), b.cpu()
	err := b.changes(ctx, path, agentChanges)
	cpu = b.cpu() - cpu
	end()
	ended.Wait()
	if got := heard.Load() - before; err == nil && got < agentChanges-fewAgents {
		err = fmt.Errorf("%d changes, of which %d were heard: %w", agentChanges, got, errors.Join(errs...))
	}
	return cpu / agentChanges * 1e3, err
}

// changes makes n of them, on one pod after the other.
func (b *bench) changes(ctx context.Context, path string, n int) error {
	c, err := b.dial(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	for i := range n {
		q := call{method: "PATCH", path: fmt.Sprintf("%s/on-%d", path, i%fewAgents), kind: "application/merge-patch+json",
			body: fmt.Appendf(nil, `{"metadata":{"annotations":{"change":"%d-%d"}}}`, i, time.Now().UnixNano())}
		if _, err := c.do(ctx, q); err != nil {
			return err
		}
		time.Sleep(agentPause)
	}
	return nil
}

// agent watches until ctx ends and counts what it hears.
func agent(ctx context.Context, t *target, q call, ready func(), heard *atomic.Int64) error {
	ready = sync.OnceFunc(ready)
	defer ready()
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
	ready()
	return countEvents(resp.Body, q.accept, heard)
}
