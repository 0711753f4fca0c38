package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// space makes a namespace of the measurement's own and returns its name and what removes it.
func (b *bench) space(ctx context.Context) (name string, remove func(), err error) {
	c, err := b.dial(ctx)
	if err != nil {
		return "", nil, err
	}
	defer c.close()
	name = fmt.Sprintf("bench-%x", time.Now().UnixNano()&0xffffffffff)
	body := `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"` + name + `"}}`
	if _, err := c.do(ctx, call{method: "POST", path: "/api/v1/namespaces", body: []byte(body)}); err != nil {
		return "", nil, err
	}
	return name, func() {
		if c, err := b.dial(ctx); err == nil {
			defer c.close()
			c.do(ctx, call{method: "DELETE", path: "/api/v1/namespaces/" + name})
		}
	}, nil
}

// awaitAccount waits until the namespace has the account that pods need.
func (b *bench) awaitAccount(ctx context.Context, ns string) error {
	return b.poll(ctx, "GET", "/api/v1/namespaces/"+ns+"/serviceaccounts/default", 0)
}

// pollLimit bounds every wait of a measurement.
const pollLimit = 10 * time.Minute

// poll asks until the answer is good, or refused with the code.
func (b *bench) poll(ctx context.Context, method, path string, code int) error {
	ctx, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	c, err := b.dial(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	for {
		_, err := c.do(ctx, call{method: method, path: path})
		var refused *codeError
		if (err == nil && code == 0) || errors.As(err, &refused) && refused.code == code {
			return nil
		}
		if err != nil && !errors.As(err, &refused) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", path, context.Cause(ctx))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// storm makes n calls on ways connections and returns their latencies and how long all took together.
func (b *bench) storm(ctx context.Context, ways, n int, q func(i int) call) (times, time.Duration, error) {
	conns := make([]*conn, ways)
	for i := range conns {
		c, err := b.dial(ctx)
		if err != nil {
			return nil, 0, err
		}
		defer c.close()
		conns[i] = c
	}
	took := make(times, n)
	errs := make([]error, ways)
	var next atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for w, c := range conns {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				at := time.Now()
				if _, errs[w] = c.do(ctx, q(i)); errs[w] != nil {
					return
				}
				took[i] = time.Since(at)
			}
		})
	}
	all.Wait()
	return took, time.Since(began), errors.Join(append(errs, ctx.Err())...)
}

// measured is storm with figures: the rate under the name, and the server's CPU for one call.
func (b *bench) measured(ctx context.Context, name string, ways, n int, q func(i int) call) error {
	metered, cpu, self := b.meter(ctx, name), b.cpu(), processes{os.Getpid()}
	own := self.cpu()
	took, span, err := b.storm(ctx, ways, n, q)
	if err != nil {
		return err
	}
	b.figure(fmt.Sprintf("%s, %d-way", name, ways), float64(n)/span.Seconds(), "/s")
	if len(b.processes) > 0 {
		b.figure(name+", server CPU", (b.cpu()-cpu)/float64(n)*1000, "ms")
	}
	metered(n)
	fmt.Printf("  this client's own CPU: %s ms a call\n", number((self.cpu()-own)/float64(n)*1000))
	took.show()
	b.showMemory()
	return nil
}

func (b *bench) showMemory() {
	if len(b.processes) == 0 {
		return
	}
	all, own := b.memory()
	fmt.Printf("  memory MiB: %.0f resident, %.0f of it anonymous\n", all, own)
}
