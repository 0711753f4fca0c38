package h2

import (
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// creditFrom bounds the bytes that were read before the client learns of the room on the connection.
const creditFrom = 32 << 10

// A body holds what the client sends. What the handler has yet to read is bounded by the stream's window.
type body struct {
	st *stream

	// Guarded by the connection's mu.
	more    sync.Cond
	buf     []byte
	at      int   // in buf, of what is to be read next
	err     error // what follows buf; nil: more is to come
	closed  bool  // nobody reads
	asked   bool  // the client waits for 100 before it sends anything
	readBy  time.Time
	trailer http.Header
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	c := b.st.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(p) == 0 {
		return 0, nil
	}
	b.welcome()
	for {
		switch {
		case b.closed && b.err == nil:
			return 0, http.ErrBodyReadAfterClose
		case b.at < len(b.buf):
			n := copy(p, b.buf[b.at:])
			b.taken(n)
			return n, nil
		case b.err != nil:
			b.copyTrailer()
			return 0, b.err
		case !b.readBy.IsZero() && time.Until(b.readBy) <= 0:
			b.fail(os.ErrDeadlineExceeded)
			return 0, b.err
		}
		wait(&b.more, b.readBy)
	}
}

// taken lets the client send as much as was read. It needs mu.
func (b *body) taken(n int) {
	st := b.st
	if b.at += n; b.at == len(b.buf) {
		b.buf, b.at = b.buf[:0], 0
	}
	st.give(n)
	st.c.flush()
}

// give lets the client send n bytes more, of this stream and on the connection. It needs mu.
func (st *stream) give(n int) {
	st.c.give(n)
	if st.credit += int64(n); !st.ended && st.credit >= int64(st.c.s.cfg.StreamWindow)/2 {
		st.c.windowUpdate(st.id, int(st.credit))
		st.inflow, st.credit = st.inflow+st.credit, 0
	}
}

// give lets the client send n bytes more on the connection, once that is worth a frame. It needs mu.
func (c *conn) give(n int) {
	if c.credit += int64(n); c.credit >= creditFrom && c.err == nil {
		c.windowUpdate(0, int(c.credit))
		c.inflow, c.credit = c.inflow+c.credit, 0
	}
}

// welcome tells a client that waits for it that its body is wanted. It needs mu.
func (b *body) welcome() {
	if !b.asked || b.st.err != nil || b.st.answer.sent {
		return
	}
	b.asked = false
	block := encode(http.StatusContinue, nil)
	b.st.c.frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, b.st.id, block.buf.Bytes())
	block.release()
	b.st.c.flush()
}

// copyTrailer gives the handler the trailers that were announced. It needs mu.
func (b *body) copyTrailer() {
	for k := range b.st.req.Trailer {
		if vv, ok := b.trailer[k]; ok && b.err == io.EOF {
			b.st.req.Trailer[k] = vv
		}
	}
}

// Close implements io.Closer: what comes is thrown away.
func (b *body) Close() error {
	c := b.st.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if !b.closed {
		c.give(len(b.unread()))
		b.discard()
		c.flush()
	}
	return nil
}

// unread returns what nobody has read yet. It needs mu, as do the next.
func (b *body) unread() []byte { return b.buf[b.at:] }

func (b *body) discard() { b.closed, b.buf, b.at = true, nil, 0 }

func (b *body) fail(err error) {
	if b.err == nil {
		b.err = err
	}
	b.more.Broadcast()
}

func (b *body) add(p []byte) {
	if b.at > 0 && len(b.buf)+len(p) > cap(b.buf) {
		b.buf, b.at = append(b.buf[:0], b.unread()...), 0
	}
	b.buf = append(b.buf, p...)
	b.more.Signal()
}

// data takes a piece of a body. It needs mu.
func (c *conn) data(f *http2.DataFrame) error {
	size := int64(f.Length)
	if c.inflow -= size; c.inflow < 0 {
		return http2.ConnectionError(http2.ErrCodeFlowControl)
	}
	st, err := c.known(f.StreamID)
	if err != nil {
		return err
	}
	if st == nil || st.ended {
		c.give(int(size))
		if st == nil && (c.leaving || slices.Contains(c.late, f.StreamID)) {
			return nil // it could not know
		}
		return http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeStreamClosed}
	}
	if st.inflow -= size; st.inflow < 0 {
		c.give(int(size))
		return http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeFlowControl}
	}
	p := f.Data()
	if st.left >= 0 {
		if st.left -= int64(len(p)); st.left < 0 {
			c.give(int(size))
			return http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeProtocol}
		}
	}
	if st.body.closed {
		st.give(int(size))
	} else {
		st.body.add(p)
		st.give(int(size) - len(p)) // the padding
	}
	if f.StreamEnded() {
		return st.complete(nil)
	}
	return nil
}

// complete notes that the client has said all. It needs mu.
func (st *stream) complete(trailer http.Header) error {
	if st.left > 0 {
		return http2.StreamError{StreamID: st.id, Code: http2.ErrCodeProtocol}
	}
	st.ended, st.body.trailer = true, trailer
	st.body.fail(io.EOF)
	return nil
}
