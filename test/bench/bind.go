package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// How the measurement of the scheduler goes: how many pods are bound, on how many connections they are made, and how
// many simulated nodes own kloops have.
const (
	newBound  = 10_000
	bindWays  = 64
	bindNodes = 5000
)

// bind takes what clients see of API, store and scheduler together. First pods are made that can be bound at once: the time
// from the first request until the last of them has a node. Then pods wait for another one to be near to, and it comes: the
// time from that until the last of them has a node. Nodes are the cluster's; own kloops have simulated ones, which are
// told not to start the pods.
func bind(ctx context.Context, b *bench) error {
	if err := errors.Join(b.awaitNodes(ctx), b.awaitCalm(ctx)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	for _, k := range []struct {
		name, affinity string
		waiting        bool
	}{
		{"pods made and bound", "", false},
		{"waiting pods bound",
			`"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"kubernetes.io/os",` +
				`"labelSelector":{"matchLabels":{"app":"first"}}}]}`, true},
	} {
		if err := b.boundIn(ctx, k.name, k.affinity, k.waiting); err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
		if err := b.awaitCalm(ctx); err != nil { // the pods before are being removed
			return err
		}
	}
	return nil
}

// boundIn makes pods and counts until all are bound: from the first request on, or, when they wait, from the request for
// the pod that they wait for.
func (b *bench) boundIn(ctx context.Context, name, affinity string, waiting bool) error {
	ns, remove, err := b.space(ctx)
	if err != nil {
		return err
	}
	defer remove()
	if err := b.awaitAccount(ctx, ns); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	bound, err := b.countBound(ctx, ns, newBound)
	if err != nil {
		return err
	}
	cpu, began := b.cpu(), time.Now()
	if _, made, err := b.storm(ctx, bindWays, newBound, func(i int) call { return createHeld(ns, "bench", affinity, i) }); err != nil {
		return err
	} else {
		fmt.Printf("  all made after %.2f s\n", made.Seconds())
	}
	if waiting {
		if err := b.awaitCalm(ctx); err != nil {
			return err
		}
		cpu, began = b.cpu(), time.Now()
		if _, _, err := b.storm(ctx, 1, 1, func(int) call { return createHeld(ns, "first", "", newBound) }); err != nil {
			return err
		}
	}
	if err := <-bound; err != nil {
		return err
	}
	b.figure(name, newBound/time.Since(began).Seconds(), "/s")
	if len(b.processes) > 0 {
		b.figure(name+", server CPU", (b.cpu()-cpu)/newBound*1000, "ms")
	}
	b.showMemory()
	return nil
}

// createHeld makes a pod that simulated nodes don't start.
func createHeld(ns, app, affinity string, i int) call {
	return call{method: "POST", path: "/api/v1/namespaces/" + ns + "/pods", body: fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod",`+
		`"metadata":{"name":"pod-%05d","labels":{"app":%q},"annotations":{"sim.kloop.dev/hold":""}},"spec":{"affinity":{%s},`+
		`"containers":[{"name":"main",`+
		`"image":"registry.example/app:v1","ports":[{"containerPort":80}],"env":[{"name":"A","value":"1"},{"name":"B","value":"2"}],`+
		`"resources":{"requests":{"cpu":"10m","memory":"16Mi"},"limits":{"memory":"64Mi"}}}]}}`, i, app, affinity)}
}

// awaitCalm waits until nobody writes any more but heartbeats.
func (b *bench) awaitCalm(ctx context.Context) error {
	c, err := b.dial(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	const beats = 5
	for before := int64(-beats - 1); ; {
		var list struct {
			Metadata struct {
				ResourceVersion int64 `json:",string"`
			}
		}
		if err := c.decode(ctx, call{method: "GET", path: "/api/v1/namespaces?limit=1"}, &list); err != nil {
			return err
		}
		if list.Metadata.ResourceVersion <= before+beats {
			return nil
		}
		before = list.Metadata.ResourceVersion
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

// countBound watches the pods without a node, of which nothing but the metadata is asked for: one that gets a node is
// deleted for this watch. It tells when so many were.
func (b *bench) countBound(ctx context.Context, ns string, n int) (<-chan error, error) {
	c, err := b.dial(ctx)
	if err != nil {
		return nil, err
	}
	resp, err := c.open(ctx, call{method: "GET",
		path:   "/api/v1/namespaces/" + ns + "/pods?watch=true&resourceVersion=0&fieldSelector=spec.nodeName%3D",
		accept: "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"})
	if err != nil {
		c.close()
		return nil, err
	}
	if resp.StatusCode >= 300 {
		c.close()
		return nil, refusal(call{method: "GET", path: "pods"}, resp)
	}
	done := make(chan error, 1)
	go func() {
		defer c.leave(resp)
		defer context.AfterFunc(ctx, c.close)()
		counter := &occurrences{of: []byte(`"type":"DELETED"`), enough: n}
		if _, err := io.Copy(counter, resp.Body); counter.seen < n {
			done <- fmt.Errorf("%d of %d pods were bound: %w", counter.seen, n, err)
			return
		}
		done <- nil
	}()
	return done, nil
}

// occurrences counts how often some bytes are written to it, until it was often enough.
type occurrences struct {
	of     []byte
	enough int
	seen   int
	rest   []byte // the end of what was written before: the bytes may be cut in two
}

var errEnough = errors.New("seen often enough")

func (o *occurrences) Write(p []byte) (int, error) {
	o.rest = append(o.rest, p...)
	if o.seen += bytes.Count(o.rest, o.of); o.seen >= o.enough {
		return 0, errEnough
	}
	if i := bytes.LastIndex(o.rest, o.of); i >= 0 {
		o.rest = o.rest[i+len(o.of):]
	}
	o.rest = append(o.rest[:0], o.rest[max(len(o.rest)-len(o.of)+1, 0):]...)
	return len(p), nil
}
