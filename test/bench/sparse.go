package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// How the thin stream of events is made: one change, then a pause, as informers of a cluster at work see them.
const (
	sparseEvents = 100
	sparsePause  = 20 * time.Millisecond
)

// sparse measures what it costs to tell one change at a time to many watchers, on connections of their own and on
// shared ones. First comes the floor: see floorMain.
func sparse(ctx context.Context, b *bench) error {
	err := b.floor(ctx, func(ctx context.Context, floor *bench) error {
		return floor.tell(ctx, "floor of kernel and TLS", "http/1.1", 0, call{method: "GET", path: "/"},
			func(i int) call { return call{method: "PUT", path: "/" + strconv.Itoa(i)} })
	})
	if err != nil {
		return fmt.Errorf("the floor: %w", err)
	}
	ns, remove, err := b.space(ctx)
	if err != nil {
		return err
	}
	defer remove()
	path := "/api/v1/namespaces/" + ns + "/secrets"
	write, err := unheard(ctx, b, path)
	if err != nil {
		return err
	}
	for _, k := range []struct {
		name, accept string
		protocol     string
	}{
		{"HTTP/1.1, JSON", jsonType, "http/1.1"},
		{"HTTP/1.1, protobuf", protobuf, "http/1.1"},
		{"HTTP/2, JSON", jsonType, "h2"},
		{"HTTP/2, protobuf", protobuf, "h2"},
		{"HTTP/2 shared, JSON", jsonType, "h2 shared"},
	} {
		from, err := b.secret(ctx, path)
		if err != nil {
			return err
		}
		watch := call{method: "GET", path: path + "?watch=true&resourceVersion=" + from, accept: k.accept}
		change := func(i int) call {
			return call{method: "PUT", path: path + "/told", body: []byte(secretBody(i + 1))}
		}
		if err := b.tell(ctx, k.name, k.protocol, write, watch, change); err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
	}
	return nil
}

// unheard returns the server's CPU in seconds for one such change while nobody watches.
func unheard(ctx context.Context, b *bench, path string) (float64, error) {
	if _, err := b.secret(ctx, path); err != nil {
		return 0, err
	}
	c, err := b.dial(ctx)
	if err != nil {
		return 0, err
	}
	defer c.close()
	cpu := b.cpu()
	for i := range sparseEvents {
		if _, err := c.do(ctx, call{method: "PUT", path: path + "/told", body: []byte(secretBody(i + 1))}); err != nil {
			return 0, err
		}
		time.Sleep(sparsePause)
	}
	each := (b.cpu() - cpu) / sparseEvents
	if len(b.processes) > 0 {
		b.figure("sparse watch, a change that nobody watches, server CPU", each*1e3, "ms")
	}
	return each, nil
}

func secretBody(version int) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"told","labels":{"app":"bench"}},`+
		`"stringData":{"key":"some value of no great length","version":"%d"}}`, version)
}

// secret makes the object that changes anew and returns its revision.
func (b *bench) secret(ctx context.Context, path string) (string, error) {
	c, err := b.dial(ctx)
	if err != nil {
		return "", err
	}
	defer c.close()
	var refused *codeError
	if _, err := c.do(ctx, call{method: "DELETE", path: path + "/told"}); err != nil && !errors.As(err, &refused) {
		return "", err
	}
	var made struct {
		Metadata struct{ ResourceVersion string }
	}
	err = c.decode(ctx, call{method: "POST", path: path, body: []byte(secretBody(0))}, &made)
	return made.Metadata.ResourceVersion, err
}

// tell opens the watches, makes the changes with a pause after each, and notes the server's CPU for each delivery, with the change and
// beyond what that alone takes, and how long after the acknowledged write the last watcher knew.
func (b *bench) tell(ctx context.Context, name, protocol string, write float64, watch call, change func(i int) call) error {
	ctx, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	told := &told{watchers: b.watchers, all: make(chan time.Time, sparseEvents)}
	var open, ended sync.WaitGroup
	errs := make([]error, b.watchers)
	gate := make(chan struct{}, 16) // handshakes at once
	targets := b.targets(protocol)
	for i := range b.watchers {
		open.Add(1)
		ended.Go(func() {
			once := sync.OnceFunc(open.Done)
			defer once()
			gate <- struct{}{}
			errs[i] = told.hear(ctx, targets(), watch, func() { <-gate; once() })
		})
	}
	open.Wait()
	c, err := b.dial(ctx) // not before: many watches take longer to open than a connection may be idle
	if err != nil {
		return err
	}
	defer c.close()
	resident, _ := b.memory()
	defer b.sampled(ctx, name)()
	cpu, took := b.cpu(), times{}
	for i := range sparseEvents {
		if _, err := c.do(ctx, change(i)); err != nil {
			return err
		}
		known := time.Now()
		select {
		case at := <-told.all:
			took = append(took, max(0, at.Sub(known)))
		case <-ctx.Done():
			return errors.Join(append(errs, context.Cause(ctx))...)
		}
		time.Sleep(sparsePause)
	}
	cpu = b.cpu() - cpu
	ended.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if len(b.processes) > 0 {
		each := cpu / sparseEvents
		b.figure("sparse watch, "+name+", server CPU a delivery", each/float64(b.watchers)*1e6, "µs")
		if write > 0 {
			b.figure("sparse watch, "+name+", server CPU a delivery beyond the change", (each-write)/float64(b.watchers)*1e6, "µs")
		}
	}
	b.figure("sparse watch, "+name+", last watcher after the write, 99 %", took.at(0.99), "ms")
	fmt.Printf("  %d watchers, %d writes, %.0f MiB resident; from the answer to the last watcher:\n", b.watchers, sparseEvents, resident)
	took.show()
	return nil
}

// targets returns what makes the target of each watcher: h2 gives it a connection of its own, "h2 shared" does not.
func (b *bench) targets(protocol string) func() *target {
	with := func() *target {
		t := *b.target
		t.http2 = nil
		if protocol == "http/1.1" {
			return &t
		}
		own := t.tls.Clone()
		own.NextProtos = []string{"h2"}
		t.http2 = &http.Client{Transport: &http.Transport{TLSClientConfig: own, ForceAttemptHTTP2: true}}
		return &t
	}
	if protocol != "h2 shared" {
		return with
	}
	shared := with()
	return func() *target { return shared }
}

// told counts who has heard of which change.
type told struct {
	watchers int
	heard    [sparseEvents]atomic.Int64
	all      chan time.Time // when the last watcher knew, change by change
}

// hear watches, calls ready when the watch stands, and returns when it has heard of every change.
func (h *told) hear(ctx context.Context, t *target, q call, ready func()) error {
	ready = sync.OnceFunc(ready)
	defer ready()
	c, err := t.dial(ctx)
	if err != nil {
		return err
	}
	if c.c != nil {
		c.r = bufio.NewReaderSize(c.c, 4<<10) // there are many
	}
	stop := context.AfterFunc(ctx, c.close)
	defer stop()
	resp, err := c.open(ctx, q)
	if err != nil {
		return err
	}
	defer c.leave(resp)
	if resp.StatusCode != http.StatusOK {
		return refusal(q, resp)
	}
	ready()
	r := bufio.NewReaderSize(resp.Body, 2<<10)
	for i := range sparseEvents {
		if err := nextEvent(r, q.accept); err != nil {
			return fmt.Errorf("a watch ended after %d of %d events: %w", i, sparseEvents, err)
		}
		if h.heard[i].Add(1) == int64(h.watchers) {
			h.all <- time.Now()
		}
	}
	return nil
}

// countEvents counts what a watch tells until it ends.
func countEvents(from io.Reader, accept string, heard *atomic.Int64) error {
	for r := bufio.NewReaderSize(from, 2<<10); ; heard.Add(1) {
		if err := nextEvent(r, accept); err != nil {
			return err
		}
	}
}

// nextEvent reads one event: a line of JSON, or a message of protobuf behind its length.
func nextEvent(r *bufio.Reader, accept string) error {
	if accept != protobuf {
		_, err := r.ReadSlice('\n')
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = r.ReadSlice('\n')
		}
		return err
	}
	head, err := r.Peek(4)
	if err != nil {
		return err
	}
	_, err = r.Discard(4 + int(binary.BigEndian.Uint32(head)))
	return err
}

// ownTLS is for the floor, whose certificate nobody has signed.
var ownTLS = &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}
