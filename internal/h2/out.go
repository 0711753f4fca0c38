package h2

import (
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// Bounds of what waits to be written, in bytes for each connection.
const (
	outLimit     = 64 << 10               // from which handlers wait
	offerLimit   = 1 << 20                // from which nothing is taken of those who can't wait
	offerShare   = 1 << 10                // … for each stream, while the client has yet to take what was written
	controlLimit = offerLimit + 256<<10   // from which the client is in the wrong: these are answers that it does not take
	gatherFrom   = 32 << 10               // offered, that are written at once: what fills two TLS records
	keptBuffer   = offerLimit             // of buffers that are used again
	payload      = frameSize - headerSize // of a full frame: so it fills one TLS record
	headerSize   = 9
	ownRounds    = 2 // after which a handler leaves to another goroutine what others add while it writes
)

// buffers hold their memory by a pointer, as a pool wants it, and boxes what those pointed to: so that neither way costs an allocation.
var (
	buffers = sync.Pool{New: func() any { b := make([]byte, 0, frameSize); return &b }}
	boxes   = sync.Pool{New: func() any { return new([]byte) }}
)

func borrow() []byte {
	box := buffers.Get().(*[]byte)
	b := *box
	*box = nil
	boxes.Put(box)
	return b[:0]
}

func giveBack(b []byte) {
	if cap(b) > 0 && cap(b) <= keptBuffer {
		box := boxes.Get().(*[]byte)
		*box = b
		buffers.Put(box)
	}
}

// offerRoom returns how many bytes may wait when something is offered. When the client has yet to take what was written, its streams
// bound them, each of which costs more than that anyway: so those that share a connection still hear together, and a crowd of slow clients
// holds little.
func offerRoom(stuck bool, streams int) int {
	if stuck {
		return min(streams*offerShare, offerLimit)
	}
	return offerLimit
}

// frame appends a frame whose payload is the parts. It needs mu.
func (c *conn) frame(t http2.FrameType, flags http2.Flags, id uint32, parts ...[]byte) {
	if c.mute {
		return
	}
	if c.out == nil {
		c.out = borrow()
	}
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	c.out = append(c.out, byte(n>>16), byte(n>>8), byte(n), byte(t), byte(flags), byte(id>>24), byte(id>>16), byte(id>>8), byte(id))
	for _, p := range parts {
		c.out = append(c.out, p...)
	}
}

// flush writes what has gathered, unless somebody is at it: that one goes on with it. It needs mu, and gives it up meanwhile.
func (c *conn) flush() {
	for round := 0; !c.busy && len(c.out) > 0; round++ {
		if c.line == nil || round == ownRounds {
			c.kick()
			return
		}
		c.write()
	}
}

// kick has a goroutine write what gathers until it comes to run. It needs mu.
func (c *conn) kick() {
	if c.kicked {
		return
	}
	c.kicked = true
	go func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.kicked = false
		for !c.busy && len(c.out) > 0 {
			c.write()
		}
	}()
}

// write writes what has gathered. It needs mu, which it gives up meanwhile, and that nobody is busy.
func (c *conn) write() {
	b := c.out
	c.out, c.busy = nil, true
	c.pass()
	c.mu.Unlock()
	taken, err := c.put(b)
	giveBack(b)
	c.mu.Lock()
	if taken != nil && err == nil {
		c.stuck = true
		go c.resume(taken)
		return
	}
	c.busy = false
	if err != nil {
		c.broken(err)
	}
	c.pass()
}

// put gives the connection bytes.
func (c *conn) put(b []byte) (<-chan struct{}, error) {
	if c.line == nil {
		_ = c.nc.SetWriteDeadline(time.Now().Add(c.s.cfg.Write))
		_, err := c.nc.Write(b)
		return nil, err
	}
	c.pending = b
	defer func() { c.pending = nil }()
	return c.line.Put(c.writePending)
}

// writeOut writes what put was given.
func (c *conn) writeOut() error {
	_, err := c.nc.Write(c.pending)
	return err
}

// resume goes on when the client has taken what was written.
func (c *conn) resume(taken <-chan struct{}) {
	<-taken // the line's deadline ends it
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy, c.stuck = false, false
	if err := c.line.Err(); err != nil {
		c.broken(err)
	}
	c.pass()
	for !c.busy && len(c.out) > 0 {
		c.write()
	}
}

// pass wakes the stream that has waited longest if there is room for it. It needs mu.
func (c *conn) pass() {
	if len(c.waiting) > 0 && c.window > 0 && len(c.out) < outLimit {
		c.waiting[0].room.Signal()
	}
}
