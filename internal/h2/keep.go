package h2

import (
	"time"

	"golang.org/x/net/http2"
)

// A watcher notices clients that are gone and connections that nobody uses. It wakes up a few times a minute.
type watcher struct {
	timer  *time.Timer
	frames uint32        // that had been read when it looked last
	last   uint32        // the stream that had begun last
	quiet  time.Duration // since the client has said anything
	unused time.Duration // since there was a request
	asked  bool          // whether the client is there
}

func (w *watcher) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// watch starts the watcher.
func (c *conn) watch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.watchdog.timer = time.AfterFunc(c.s.cfg.Pong, c.look)
	}
}

// look does the watcher's work each time.
func (c *conn) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	w, cfg := &c.watchdog, &c.s.cfg
	frames := c.frames.Load()
	if frames != w.frames {
		w.frames, w.quiet, w.asked = frames, 0, false
	} else {
		w.quiet += cfg.Pong
	}
	if c.handlers > 0 || c.last != w.last {
		w.last, w.unused = c.last, 0
	} else if w.unused += cfg.Pong; w.unused >= cfg.Idle {
		c.goAway(http2.ErrCodeNo)
		c.flush()
		c.rest()
		return
	}
	switch {
	case w.quiet >= cfg.Ping && w.asked:
		c.broken(errGone)
		return
	case w.quiet >= cfg.Ping:
		w.asked = true
		c.frame(http2.FramePing, 0, 0, make([]byte, 8))
		c.flush()
	}
	w.timer.Reset(cfg.Pong)
}

// How many streams a client may cancel.
const (
	freeResets   = 4000
	resetsPerSec = 200
)

// A bucket holds what may be done at once, and is filled again as time goes by.
type bucket struct {
	left   float64
	filled time.Time
}

func newBucket() bucket { return bucket{left: freeResets, filled: time.Now()} }

// take says whether there was something left.
func (b *bucket) take(now time.Time) bool {
	b.left = min(freeResets, b.left+now.Sub(b.filled).Seconds()*resetsPerSec)
	b.filled = now
	b.left--
	return b.left >= 0
}
