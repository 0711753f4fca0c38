package h2

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// finish sends what is left when the handler has returned.
func (w *response) finish() {
	if w.code == 0 {
		w.WriteHeader(http.StatusOK)
	}
	st, c := w.st, w.st.c
	c.mu.Lock()
	defer c.mu.Unlock()
	defer w.release()
	if st.err != nil {
		return
	}
	trailer := w.trailer()
	if !w.sent && w.announced < 0 && bodied(w.code) && len(trailer) == 0 && (len(w.buf) > 0 || !w.head) {
		w.block.add("content-length", strconv.Itoa(len(w.buf)))
	}
	short := w.announced > w.size && !w.head && bodied(w.code)
	last := len(w.buf) == 0 && len(trailer) == 0
	fresh := !w.sent
	w.begin(nil, last && !short)
	for len(w.buf) > 0 {
		n, err := st.send(w.buf, nil, len(trailer) == 0 && !short)
		if err != nil {
			return
		}
		w.buf = w.buf[:copy(w.buf, w.buf[n:])]
	}
	switch {
	case st.err != nil:
		return
	case short:
		c.reset(st.id, http2.ErrCodeInternal) // a part must not look whole
		return
	case len(trailer) > 0:
		b := encode(0, trailer)
		b.send(st, true)
		b.release()
	case last && !fresh:
		_, _ = st.send(nil, nil, true)
	}
	switch {
	case st.ended:
	case st.comes():
		c.late.add(st.id)
	default:
		c.reset(st.id, http2.ErrCodeNo) // the rest of the body isn't wanted
	}
}

// smallRest bounds the rest of a body, in bytes, that is dropped as it comes when the request has been answered already.
const smallRest = 64 << 10

// comes says that the rest of the body that nobody wants is small and under way. Then the stream is not reset: clients may (RFC 9113, 8.1,
// forbids it), and some do, take that for the failure of a request that has its whole answer, a refusal as a rule. It needs mu.
func (st *stream) comes() bool {
	return 0 <= st.left && st.left <= min(smallRest, st.inflow) && !st.body.asked
}

func (w *response) release() {
	w.drop()
	if w.block != nil {
		w.block.release()
		w.block = nil
	}
}

// trailer returns what follows the body: headers that were announced, and those that say by their names that they are trailers.
func (w *response) trailer() http.Header {
	var out http.Header
	add := func(k string, vv []string) {
		if len(vv) > 0 && httpguts.ValidTrailerHeader(k) {
			if out == nil {
				out = http.Header{}
			}
			out[k] = vv
		}
	}
	for _, k := range w.trailers {
		add(k, w.header[k])
	}
	for k, vv := range w.header {
		if name, ok := strings.CutPrefix(k, http.TrailerPrefix); ok {
			add(http.CanonicalHeaderKey(name), vv)
		}
	}
	return out
}

// A block is encoded headers. They refer to no others, so that they can be made before it is known when they are sent.
type block struct {
	code int
	buf  bytes.Buffer
	enc  *hpack.Encoder
}

var blocks = sync.Pool{New: func() any {
	b := &block{}
	b.enc = hpack.NewEncoder(&b.buf)
	b.enc.SetMaxDynamicTableSize(0)
	b.add("date", "") // says so, which only one header block need do
	return b
}}

// encode returns the headers of an answer, without those that HTTP/2 has no place for; code 0 makes trailers.
func encode(code int, h http.Header) *block {
	b := blocks.Get().(*block)
	b.buf.Reset()
	if b.code = code; code != 0 {
		b.add(":status", strconv.Itoa(code))
	}
	for k, vv := range h {
		if ofConnections[k] || !httpguts.ValidHeaderFieldName(k) { // the mark of a trailer neither
			continue
		}
		k = lower(k)
		for _, v := range vv {
			if httpguts.ValidHeaderFieldValue(v) {
				b.add(k, v)
			}
		}
	}
	return b
}

// add appends a field, whose name must be in lower case.
func (b *block) add(name, value string) {
	_ = b.enc.WriteField(hpack.HeaderField{Name: name, Value: value})
}

// release gives the block back.
func (b *block) release() {
	if b.buf.Cap() <= frameSize {
		blocks.Put(b)
	}
}

// send appends the headers, in as many frames as they need. The connection's mu is needed.
func (b *block) send(st *stream, last bool) {
	p, t := b.buf.Bytes(), http2.FrameHeaders
	var flags http2.Flags
	if last {
		flags = http2.FlagHeadersEndStream
	}
	for {
		n := min(len(p), payload)
		if n == len(p) {
			flags |= http2.FlagHeadersEndHeaders
		}
		st.c.frame(t, flags, st.id, p[:n])
		if p = p[n:]; len(p) == 0 {
			return
		}
		t, flags = http2.FrameContinuation, 0
	}
}

// lowered are the names that answers have most.
var lowered = func() map[string]string {
	m := map[string]string{}
	for _, k := range []string{"Audit-Id", "Cache-Control", "Content-Type", "Content-Length", "Date", "Warning", "Vary", "Content-Encoding",
		"Etag", "X-Kubernetes-Pf-Flowschema-Uid", "X-Kubernetes-Pf-Prioritylevel-Uid", "X-Content-Type-Options", "Retry-After"} {
		m[k] = strings.ToLower(k)
	}
	return m
}()

func lower(k string) string {
	if l, ok := lowered[k]; ok {
		return l
	}
	return strings.ToLower(k)
}
