package h2

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// errAnswered fails writes after the handler has returned.
var errAnswered = errors.New("h2: the request has been answered")

// A stream is one request and its answer.
type stream struct {
	c       *conn
	id      uint32
	req     *http.Request
	cancel  context.CancelFunc // of the request's context
	handler http.Handler
	body    body
	answer  response

	// Guarded by the connection's mu.
	err     error     // why nothing more can be sent
	window  int64     // bytes that may be sent
	room    sync.Cond // for a writer that waits: there may be some now, or none ever
	writeBy time.Time // by which a write must be done; zero: there is no limit
	queued  bool      // it stands in waiting
	ended   bool      // the client has said all
	inflow  int64     // bytes that the client may send
	credit  int64     // … that it is yet to be told of
	left    int64     // bytes that the client has announced and not sent; -1: it has announced nothing
}

func (c *conn) newStream(id uint32, ended bool) *stream {
	st := &stream{c: c, id: id, handler: c.handler, window: c.initial, ended: ended, inflow: int64(c.s.cfg.StreamWindow), left: -1}
	st.room.L, st.body.more.L = &c.mu, &c.mu
	st.body.st, st.answer.st = st, st
	return st
}

// begin has the request answered. It needs mu.
func (st *stream) begin() {
	c := st.c
	ctx, cancel := context.WithCancel(c.ctx)
	st.req, st.cancel = st.req.WithContext(ctx), cancel
	c.streams[st.id] = st
	if c.handlers++; c.handlers == 1 {
		c.state(http.StateActive)
	}
	c.s.run(st)
}

// state tells the http.Server's hook.
func (c *conn) state(s http.ConnState) {
	if hook := c.s.hs.ConnState; hook != nil {
		hook(c.nc, s)
	}
}

// serve runs the handler.
func (st *stream) serve() {
	c, whole := st.c, false
	defer func() {
		p := recover()
		if p != nil && p != http.ErrAbortHandler { //nolint:errorlint // it is a panic's value
			slog.Error("request panicked", "method", st.req.Method, "path", st.req.URL.Path, "err", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
		st.cancel()
		c.mu.Lock()
		defer c.mu.Unlock()
		if !whole && st.err == nil {
			c.reset(st.id, http2.ErrCodeInternal)
		}
		st.fail(errAnswered)
		c.forget(st)
		if c.handlers--; c.handlers == 0 {
			c.state(http.StateIdle)
		}
		c.flush()
	}()
	st.handler.ServeHTTP(&st.answer, st.req)
	st.answer.finish()
	whole = true
}

// fail ends what reads and writes the stream. It needs mu.
func (st *stream) fail(err error) {
	if st.err != nil {
		return
	}
	st.err = err
	st.cancel()
	st.room.Broadcast()
	st.body.fail(err)
}

// await waits until at least one byte may be sent. It needs mu.
func (st *stream) await() error {
	defer st.unqueue()
	for {
		switch {
		case st.err != nil:
			return st.err
		case !st.writeBy.IsZero() && time.Until(st.writeBy) <= 0:
			st.c.reset(st.id, http2.ErrCodeInternal)
			st.c.flush()
			return os.ErrDeadlineExceeded
		case st.may():
			return nil
		}
		if c := st.c; !c.busy && !c.kicked && len(c.out) > 0 {
			c.flush() // or the client might wait for that, and this for the client
			continue
		}
		if st.window > 0 {
			st.queue()
		} else {
			st.unqueue()
		}
		wait(&st.room, st.writeBy)
	}
}

// may says that it is this stream's turn to send something.
func (st *stream) may() bool {
	c := st.c
	return st.window > 0 && c.window > 0 && len(c.out) < outLimit && (len(c.waiting) == 0 || c.waiting[0] == st)
}

func (st *stream) queue() {
	if !st.queued {
		st.queued = true
		st.c.waiting = append(st.c.waiting, st)
	}
}

func (st *stream) unqueue() {
	if !st.queued {
		return
	}
	st.queued = false
	c := st.c
	if i := slices.Index(c.waiting, st); i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
	}
	c.pass()
}

// wait waits for the condition, or until the time has come if it isn't zero.
func wait(cond *sync.Cond, until time.Time) {
	if !until.IsZero() {
		alarm := time.AfterFunc(time.Until(until), func() {
			cond.L.Lock() // or it might ring before anybody waits
			defer cond.L.Unlock()
			cond.Broadcast()
		})
		defer alarm.Stop()
	}
	cond.Wait()
}

// send appends as much of a and b, one behind the other, as fits a frame and the windows, and returns how much that is. It
// waits until it is something. last says that nothing follows. It needs mu.
func (st *stream) send(a, b []byte, last bool) (int, error) {
	c := st.c
	n := min(len(a)+len(b), payload)
	if n > 0 {
		if err := st.await(); err != nil {
			return 0, err
		}
		n = int(min(int64(n), st.window, c.window))
	} else if st.err != nil {
		return 0, st.err
	}
	var flags http2.Flags
	if last && n == len(a)+len(b) {
		flags = http2.FlagDataEndStream
	}
	st.window -= int64(n)
	c.window -= int64(n)
	if n <= len(a) {
		c.frame(http2.FrameData, flags, st.id, a[:n])
	} else {
		c.frame(http2.FrameData, flags, st.id, a, b[:n-len(a)])
	}
	c.pass()
	return n, nil
}
