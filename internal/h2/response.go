package h2

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/net/http2"
)

// A response is the http.ResponseWriter of a stream. Its handler alone uses it; deadlines may be set by others.
type response struct {
	st     *stream
	header http.Header
	head   bool // only the headers are wanted

	code      int
	block     *block // the encoded headers, until they are sent
	sent      bool   // guarded by the connection's mu
	typed     bool   // the handler has said of what type the body is
	dated     bool
	closes    bool  // no request may follow
	announced int64 // bytes of the body; -1: not said
	size      int64 // … that were written
	trailers  []string
	buf       []byte // of the body, what doesn't fill a frame
}

// Header implements http.ResponseWriter.
func (w *response) Header() http.Header {
	if w.header == nil {
		w.header = http.Header{}
	}
	return w.header
}

// WriteHeader implements http.ResponseWriter. Codes below 200 go out at once, and another follows.
func (w *response) WriteHeader(code int) {
	if w.code != 0 {
		return
	}
	if code < 100 || code > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", code))
	}
	h := w.Header()
	if code < 200 && code != http.StatusSwitchingProtocols {
		w.inform(encode(code, h))
		return
	}
	w.code, w.announced = code, -1
	if v := h.Get("Content-Length"); v != "" {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < 0 {
			h.Del("Content-Length")
		} else {
			w.announced = n
		}
	}
	_, w.typed = h["Content-Type"]
	_, encoded := h["Content-Encoding"]
	w.typed = w.typed || encoded
	_, w.dated = h["Date"]
	w.closes = h.Get("Connection") == "close"
	w.trailers = names(h["Trailer"])
	w.block = encode(code, h)
}

func (w *response) inform(b *block) {
	defer b.release()
	c := w.st.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.st.err == nil {
		w.st.body.asked = w.st.body.asked && b.code != http.StatusContinue
		b.send(w.st, false)
		c.flush()
	}
}

// bodied says whether an answer with the code has a body.
func bodied(code int) bool {
	return code != http.StatusNoContent && code != http.StatusNotModified && code >= 200
}

// Write implements http.ResponseWriter. It waits while the client takes nothing.
func (w *response) Write(p []byte) (int, error) {
	if w.code == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if !bodied(w.code) {
		return 0, http.ErrBodyNotAllowed
	}
	w.size += int64(len(p))
	if w.announced >= 0 && w.size > w.announced {
		return 0, http.ErrContentLength
	}
	if w.head {
		return len(p), nil
	}
	rest := p
	if len(w.buf)+len(p) >= payload {
		var err error
		if rest, err = w.stream(p, payload); err != nil {
			return 0, err
		}
	}
	if len(rest) > 0 {
		if w.buf == nil {
			w.buf = borrow()
		}
		w.buf = append(w.buf, rest...)
	}
	return len(p), nil
}

// stream sends what is buffered and p while that is at least as many bytes as said, and returns what remains of p. What
// remains of the buffer stays there.
func (w *response) stream(p []byte, least int) ([]byte, error) {
	st, c := w.st, w.st.c
	c.mu.Lock()
	defer c.mu.Unlock()
	w.begin(p, false)
	for st.err == nil && len(w.buf)+len(p) >= least {
		n, err := st.send(w.buf, p, false)
		if err != nil {
			return nil, err
		}
		if n >= len(w.buf) {
			p = p[n-len(w.buf):]
			w.drop()
		} else {
			w.buf = w.buf[:copy(w.buf, w.buf[n:])]
		}
		c.flush()
	}
	return p, st.err
}

// drop gives the buffer back.
func (w *response) drop() {
	giveBack(w.buf)
	w.buf = nil
}

// begin sends the headers, before the body, which begins with the buffer and p. last says that nothing follows. It needs mu.
func (w *response) begin(p []byte, last bool) {
	if w.sent || w.st.err != nil {
		return
	}
	w.sent = true
	b := w.block
	w.block = nil
	if len(w.buf) > 0 {
		p = w.buf
	}
	if !w.typed && len(p) > 0 && bodied(w.code) {
		b.add("content-type", http.DetectContentType(p))
	}
	if !w.dated {
		b.add("date", time.Now().UTC().Format(http.TimeFormat))
	}
	if w.closes {
		w.st.c.goAway(http2.ErrCodeNo)
	}
	b.send(w.st, last)
	b.release()
}

// FlushError implements what http.ResponseController looks for.
func (w *response) FlushError() error {
	if w.code == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if _, err := w.stream(nil, 1); err != nil {
		return err
	}
	w.st.c.mu.Lock()
	defer w.st.c.mu.Unlock()
	w.st.c.flush()
	return w.st.err
}

// Flush implements http.Flusher.
func (w *response) Flush() { _ = w.FlushError() }

// WriteString implements io.StringWriter.
func (w *response) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

// SetReadDeadline limits how long the body is waited for; for http.ResponseController.
func (w *response) SetReadDeadline(t time.Time) error {
	w.st.c.mu.Lock()
	defer w.st.c.mu.Unlock()
	w.st.body.readBy = t
	w.st.body.more.Broadcast()
	return nil
}

// SetWriteDeadline limits how long a write waits for the client: one that waits longer resets the stream. For http.ResponseController.
func (w *response) SetWriteDeadline(t time.Time) error {
	w.st.c.mu.Lock()
	defer w.st.c.mu.Unlock()
	w.st.writeBy = t
	w.st.room.Broadcast()
	return nil
}

// EnableFullDuplex is for http.ResponseController: HTTP/2 can't do otherwise.
func (w *response) EnableFullDuplex() error { return nil }

// Offer sends p, and what goes before it, if that can be done without waiting for anybody; else it returns false and has sent nothing. No
// other method may be called meanwhile, but those that set deadlines.
func (w *response) Offer(p []byte) bool {
	st, c := w.st, w.st.c
	n := int64(len(p))
	c.mu.Lock()
	defer c.mu.Unlock()
	if !w.sent || len(w.buf) > 0 || st.err != nil || w.head || st.window < n || c.window < n || len(c.waiting) > 0 ||
		c.line == nil || len(c.out)+len(p) > offerRoom(c.stuck, len(c.streams)) {
		return false
	}
	for len(p) > 0 {
		some := min(len(p), payload)
		c.frame(http2.FrameData, 0, st.id, p[:some])
		p = p[some:]
	}
	w.size += n
	st.window -= n
	c.window -= n
	switch {
	case c.busy:
	case len(c.streams) == 1 || len(c.out) >= gatherFrom:
		if c.write(); !c.busy && len(c.out) > 0 {
			c.kick()
		}
	default:
		c.kick() // others of the connection may be told the same
	}
	return true
}
