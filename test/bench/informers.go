package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// How many informers begin at once.
const informers = 100

// initialEventsEnd is in the bookmark that ends the initial events (KEP-3157).
var initialEventsEnd = []byte("k8s.io/initial-events-end")

// beginning measures what it costs when many informers begin at once: each gets all pods by its watch. The floor is the part that the
// kernel and TLS take of as many bytes.
func beginning(ctx context.Context, b *bench) error {
	ns, remove, err := b.space(ctx)
	if err != nil {
		return err
	}
	defer remove()
	if err := b.fillPods(ctx, ns, b.pods); err != nil {
		return err
	}
	path := "/api/v1/namespaces/" + ns + "/pods?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
	for _, k := range []struct{ name, accept, protocol string }{
		{"HTTP/2, protobuf", protobuf, "h2"},
		{"HTTP/2, JSON", jsonType, "h2"},
		{"HTTP/1.1, protobuf", protobuf, "http/1.1"},
	} {
		if err := pause(ctx, 2*time.Second); err != nil { // what was before is collected
			return err
		}
		if err := b.begin(ctx, k.name, k.protocol, call{method: "GET", path: path, accept: k.accept}); err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
	}
	return nil
}

// begin starts the informers and waits until each has heard of all there is. Then as many connections get as many bytes from a process
// that has them ready.
func (b *bench) begin(ctx context.Context, name, protocol string, q call) error {
	name = fmt.Sprintf("%d informers begin, %s", informers, name)
	size, own, err := b.together(ctx, name, protocol, func(c *conn) (int64, error) { return c.initial(ctx, q) })
	if err != nil {
		return err
	}
	return b.floor(ctx, func(ctx context.Context, floor *bench) error {
		q := call{method: "GET", path: fmt.Sprint("/", size)}
		_, least, err := floor.together(ctx, name+", floor of kernel and TLS", "http/1.1", func(c *conn) (int64, error) {
			n, err := c.do(ctx, q)
			return n, err
		})
		if err == nil && least > 0 {
			b.figure(name+", server CPU, of the floor", own/least, "times")
		}
		return err
	})
}

// together has each of so many connections read by f, all at once. It returns how much one of them got, and the server's CPU in seconds.
func (b *bench) together(ctx context.Context, name, protocol string, f func(*conn) (int64, error)) (size int64, cpu float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	conns := make([]*conn, informers)
	targets := b.targets(protocol)
	for i := range conns {
		c, err := targets().dial(ctx)
		if err != nil {
			return 0, 0, err
		}
		defer c.close()
		conns[i] = c
	}
	before, _ := b.memory()
	top := b.peak(ctx)
	defer b.sampled(ctx, name)()
	cpu = b.cpu()
	began := time.Now()
	var done sync.WaitGroup
	errs, sizes := make([]error, informers), make([]int64, informers)
	for i, c := range conns {
		done.Go(func() {
			defer context.AfterFunc(ctx, c.close)()
			sizes[i], errs[i] = f(c)
		})
	}
	done.Wait()
	cpu = b.cpu() - cpu
	took := time.Since(began)
	most := top()
	if err := errors.Join(errs...); err != nil {
		return 0, 0, err
	}
	b.figure(name, took.Seconds(), "s")
	if len(b.processes) > 0 {
		b.figure(name+", server CPU each", cpu/informers*1e3, "ms")
		b.figure(name+", memory above rest", most-before, "MiB")
	}
	fmt.Printf("  %.1f MB each\n", float64(sizes[0])/1e6)
	return sizes[0], cpu, nil
}

// peak notes the most memory that the server holds until the function that it returns is called.
func (b *bench) peak(ctx context.Context) func() float64 {
	ctx, cancel := context.WithCancel(ctx)
	most := make(chan float64)
	go func() {
		m := 0.0
		for {
			now, _ := b.memory()
			m = max(m, now)
			if pause(ctx, 20*time.Millisecond) != nil {
				most <- m
				return
			}
		}
	}()
	return func() float64 { cancel(); return <-most }
}

// initial reads a watch until the bookmark that ends its initial events, and returns how many bytes came.
func (c *conn) initial(ctx context.Context, q call) (int64, error) {
	resp, err := c.open(ctx, q)
	if err != nil {
		return 0, err
	}
	defer c.leave(resp)
	if resp.StatusCode != http.StatusOK {
		return 0, refusal(q, resp)
	}
	counter := &tally{r: resp.Body}
	r := bufio.NewReaderSize(counter, 64<<10)
	for {
		if q.accept == protobuf {
			head, err := r.Peek(4)
			if err != nil {
				return 0, err
			}
			size := 4 + int(binary.BigEndian.Uint32(head))
			if size < r.Size() {
				event, err := r.Peek(size)
				if err != nil || bytes.Contains(event, initialEventsEnd) {
					return counter.n, err
				}
			}
			if _, err := r.Discard(size); err != nil {
				return 0, err
			}
			continue
		}
		line, err := r.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) || bytes.Contains(line, initialEventsEnd) {
			return counter.n, err
		}
	}
}

// A tally counts what is read.
type tally struct {
	r io.Reader
	n int64
}

func (t *tally) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	t.n += int64(n)
	return n, err
}
