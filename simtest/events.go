package simtest

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
	"time"
)

// events is the body of a watch on its way to the operator. It is read by one goroutine.
type events struct {
	w      *World
	ctx    context.Context
	body   io.ReadCloser
	format *format
	site   string
	from   string // what is watched
	left   []byte // of what is to be read next
	over   bool   // after left there is no more

	more chan struct{} // something has come, or nothing will any more
	mu   sync.Mutex
	come [][]byte
	last bool // after come there is no more
}

// waiting bounds the events of one watch that the operator has not read yet.
const waiting = 1 << 14

func newEvents(w *World, r *http.Request, resp *http.Response, what string) *events {
	e := &events{w: w, ctx: r.Context(), body: resp.Body, format: formatOf(resp), site: "event " + what, from: about(r),
		more: make(chan struct{}, 1)}
	w.run.lives.Go(e.take)
	return e
}

// take takes events from the server at once, also those that arrive late: a server that waits for its reader
// holds locks, on which simulated time would wait.
func (e *events) take() {
	defer e.add(nil)
	for from := bufio.NewReader(e.body); ; {
		event, err := e.format.next(from)
		if err != nil {
			return
		}
		if !e.add(event) { // as a server that gives up on a slow reader
			_ = e.body.Close()
			return
		}
	}
}

// add puts an event in line, nil for the end, and says whether there was room.
func (e *events) add(event []byte) bool {
	e.mu.Lock()
	room := len(e.come) < waiting
	switch {
	case event == nil:
		e.last = true
	case room:
		e.come = append(e.come, event)
	}
	e.mu.Unlock()
	select {
	case e.more <- struct{}{}:
	default:
	}
	return room
}

// first takes the first event in line; nil if there is none. over says that none will come.
func (e *events) first() (event []byte, over bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.come) == 0 {
		return nil, e.last
	}
	event, e.come = e.come[0], e.come[1:]
	return event, false
}

// Read implements io.Reader.
func (e *events) Read(p []byte) (int, error) {
	for len(e.left) == 0 {
		if e.over || e.w.life.dead.Load() {
			return 0, io.EOF
		}
		event, over := e.first()
		switch {
		case over:
			return 0, io.EOF
		case event != nil:
			e.left = e.pass(event)
			continue
		}
		select {
		case <-e.more:
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
func (e *events) pass(event []byte) []byte {
	e.w.door.turns.wait(e.ctx, "hear "+e.from)
	e.w.run.mu.Lock()
	cut := time.Now().Before(e.w.run.cut)
	e.w.run.mu.Unlock()
	if cut {
		e.over = true
		return nil
	}
	if e.format.bookmark(event) {
		return event
	}
	f := e.w.run.pass(e.site)
	if f == nil {
		return event
	}
	switch f.Kind {
	case Late:
		sleep(e.ctx, f.For)
	case Twice:
		return append(bytes.Clone(event), event...)
	case Missed:
		sleep(e.ctx, f.For)
		e.over = true
		return e.format.expired()
	}
	return event
}
