package main

import (
	"context"
	"fmt"
	"time"
)

// The formats that lists are asked in.
const (
	protobuf = "application/vnd.kubernetes.protobuf"
	jsonType = "application/json"
)

// How often the measurements of reads ask.
const (
	gets  = 20_000
	lists = 20
)

func get(ctx context.Context, b *bench) error {
	ns, remove, err := b.space(ctx)
	if err != nil {
		return err
	}
	defer remove()
	if err := b.fillPods(ctx, ns, 100); err != nil {
		return err
	}
	q := func(i int) call {
		return call{method: "GET", path: fmt.Sprintf("/api/v1/namespaces/%s/pods/pod-%05d", ns, i%100)}
	}
	took, _, err := b.storm(ctx, 1, gets/10, q)
	if err != nil {
		return err
	}
	b.figure("GET, 1-way, median", took.at(0.5), "ms")
	return b.measured(ctx, "GET", 8, gets, q)
}

func list(ctx context.Context, b *bench) error {
	ns, remove, err := b.space(ctx)
	if err != nil {
		return err
	}
	defer remove()
	if err := b.fillPods(ctx, ns, b.pods); err != nil {
		return err
	}
	c, err := b.dial(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	for _, f := range []struct{ name, accept string }{{"protobuf", protobuf}, {"JSON", jsonType}} {
		q := call{method: "GET", path: "/api/v1/namespaces/" + ns + "/pods", accept: f.accept}
		began := time.Now()
		size, err := c.do(ctx, q)
		if err != nil {
			return err
		}
		b.figure("LIST of pods, "+f.name+", first", time.Since(began).Seconds()*1000, "ms")
		cpu, took := b.cpu(), times{}
		for range lists {
			began := time.Now()
			if _, err := c.do(ctx, q); err != nil {
				return err
			}
			took = append(took, time.Since(began))
		}
		b.figure("LIST of pods, "+f.name+", warm", took.at(0.5), "ms")
		if len(b.processes) > 0 {
			b.figure("LIST of pods, "+f.name+", server CPU", (b.cpu()-cpu)/lists*1000, "ms")
		}
		fmt.Printf("  %d pods, %.1f MB\n", b.pods, float64(size)/1e6)
		took.show()
		b.showMemory()
	}
	return nil
}
