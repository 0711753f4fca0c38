package main

import (
	"context"
	"fmt"
	"net/url"
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
		if err := b.listed(ctx, c, "pods, "+f.name, q); err != nil {
			return err
		}
		b.showMemory()
	}
	return b.paged(ctx, c, "/api/v1/namespaces/"+ns+"/pods")
}

// page is the size of client-go's pages, in objects.
const page = 500

// paged asks for the whole list page by page, as informers without streaming and kubectl do.
func (b *bench) paged(ctx context.Context, c *conn, path string) error {
	cpu, took, pages := b.cpu(), times{}, 0
	for range lists {
		began, next := time.Now(), ""
		for first := true; first || next != ""; first = false {
			var got struct {
				Metadata struct{ Continue string }
			}
			q := call{method: "GET", path: fmt.Sprintf("%s?limit=%d&continue=%s", path, page, url.QueryEscape(next))}
			if err := c.decode(ctx, q, &got); err != nil {
				return err
			}
			next = got.Metadata.Continue
			pages++
		}
		took = append(took, time.Since(began))
	}
	name := fmt.Sprintf("LIST of pods, JSON, pages of %d", page)
	b.figure(name+", all", took.at(0.5), "ms")
	if len(b.processes) > 0 {
		b.figure(name+", server CPU", (b.cpu()-cpu)/lists*1000, "ms")
	}
	fmt.Printf("  %d pages a list\n", pages/lists)
	took.show()
	return nil
}

// listed asks for a list again and again.
func (b *bench) listed(ctx context.Context, c *conn, name string, q call) error {
	began := time.Now()
	size, err := c.do(ctx, q)
	if err != nil {
		return err
	}
	b.figure("LIST of "+name+", first", time.Since(began).Seconds()*1000, "ms")
	cpu, took := b.cpu(), times{}
	for range lists {
		began := time.Now()
		if _, err := c.do(ctx, q); err != nil {
			return err
		}
		took = append(took, time.Since(began))
	}
	b.figure("LIST of "+name+", warm", took.at(0.5), "ms")
	if len(b.processes) > 0 {
		b.figure("LIST of "+name+", server CPU", (b.cpu()-cpu)/lists*1000, "ms")
	}
	fmt.Printf("  %.1f MB\n", float64(size)/1e6)
	took.show()
	return nil
}
