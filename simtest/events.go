package simtest

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"time"
)

// events is the body of a watch on its way to the operator. It is read by one goroutine.
type events struct {
	w    *World
	ctx  context.Context
	body io.ReadCloser
	come chan []byte // lines that have arrived; closed after the last one
	site string
	left []byte // of what is to be read next
	over bool   // after left there is no more
}

// waiting bounds the events of one watch that the operator has not read yet.
const waiting = 1 << 14

func newEvents(w *World, ctx context.Context, body io.ReadCloser, what string) *events {
	e := &events{w: w, ctx: ctx, body: body, come: make(chan []byte, waiting), site: "event " + what}
	w.run.lives.Go(e.take)
	return e
}

// take takes events from the server at once, also those that arrive late: a server that waits for its reader
// holds locks, on which simulated time would wait.
func (e *events) take() {
	defer close(e.come)
	for from := bufio.NewReader(e.body); ; {
		line, err := from.ReadBytes('\n')
		if err != nil {
			return
		}
		select {
		case e.come <- line:
		default: // as a server that gives up on a slow reader
			_ = e.body.Close()
			return
		}
	}
}

// Read implements io.Reader.
func (e *events) Read(p []byte) (int, error) {
	for len(e.left) == 0 {
		if e.over || e.w.life.dead.Load() {
			return 0, io.EOF
		}
		select {
		case line, more := <-e.come:
			if !more {
				return 0, io.EOF
			}
			e.left = e.pass(line)
		case <-e.ctx.Done():
			return 0, e.ctx.Err()
		}
	}
	n := copy(p, e.left)
	e.left = e.left[n:]
	return n, nil
}

// Close implements io.Closer.
func (e *events) Close() error { return e.body.Close() }

// pass returns what arrives of an event.
func (e *events) pass(line []byte) []byte {
	e.w.run.mu.Lock()
	cut := time.Now().Before(e.w.run.cut)
	e.w.run.mu.Unlock()
	if cut {
		e.over = true
		return nil
	}
	if bytes.HasPrefix(line, []byte(`{"type":"BOOKMARK"`)) {
		return line
	}
	f := e.w.run.pass(e.site)
	if f == nil {
		return line
	}
	switch f.Kind {
	case Late:
		sleep(e.ctx, f.For)
	case Twice:
		return append(bytes.Clone(line), line...)
	case Missed:
		sleep(e.ctx, f.For)
		e.over = true
		return []byte(`{"type":"ERROR","object":` + status(410, "Expired", "too old resource version") + "}\n")
	}
	return line
}
