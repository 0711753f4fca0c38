package h2

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
)

// headers begins a stream, or ends its body. It needs mu.
func (c *conn) headers(f *http2.MetaHeadersFrame) error {
	id := f.StreamID
	bad := http2.StreamError{StreamID: id, Code: http2.ErrCodeProtocol}
	st := c.streams[id]
	switch {
	case f.HasPriority() && f.Priority.StreamDep == id:
		return bad
	case st != nil:
		return st.trailers(f)
	case id%2 == 0:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	case id <= c.last && !slices.Contains(c.late, id):
		return http2.ConnectionError(http2.ErrCodeProtocol)
	case id <= c.last || c.leaving || c.err != nil:
		return nil
	}
	c.last = id
	if len(c.streams) >= c.s.cfg.Streams || c.handlers >= c.s.cfg.Streams {
		return http2.StreamError{StreamID: id, Code: http2.ErrCodeRefusedStream}
	}
	st = c.newStream(id, f.StreamEnded())
	if f.Truncated {
		st.req = &http.Request{Method: http.MethodGet, URL: &url.URL{}, Header: http.Header{}, Body: http.NoBody}
		st.handler = http.HandlerFunc(tooLong)
	} else if st.req = c.request(f); st.req == nil || !st.expect(f) {
		return bad
	}
	st.begin()
	return nil
}

func tooLong(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "the request's headers are too long", http.StatusRequestHeaderFieldsTooLarge)
}

// trailers takes the headers that end a body. It needs mu.
func (st *stream) trailers(f *http2.MetaHeadersFrame) error {
	if st.ended {
		return http2.StreamError{StreamID: st.id, Code: http2.ErrCodeStreamClosed}
	}
	if !f.StreamEnded() || len(f.PseudoFields()) > 0 {
		return http2.StreamError{StreamID: st.id, Code: http2.ErrCodeProtocol}
	}
	trailer := http.Header{}
	for _, h := range f.RegularFields() {
		if k := http.CanonicalHeaderKey(h.Name); httpguts.ValidTrailerHeader(k) {
			trailer[k] = append(trailer[k], h.Value)
		}
	}
	return st.complete(trailer)
}

// expect prepares for the request's body; false if what the client says of it can't be.
func (st *stream) expect(f *http2.MetaHeadersFrame) bool {
	r := st.req
	if text, ok := r.Header["Content-Length"]; ok {
		n, err := strconv.ParseUint(text[0], 10, 63)
		if err != nil || len(text) > 1 || st.ended && n > 0 {
			return false
		}
		st.left = int64(n)
	}
	if httpguts.HeaderValuesContainsToken(r.Header["Expect"], "100-continue") {
		r.Header.Del("Expect")
		st.body.asked = !st.ended
	}
	st.answer.head = r.Method == http.MethodHead
	if st.ended {
		r.Body = http.NoBody
		return true
	}
	r.ContentLength, r.Body = st.left, &st.body
	for _, k := range names(r.Header["Trailer"]) {
		if r.Trailer == nil {
			r.Trailer = http.Header{}
		}
		r.Trailer[k] = nil
	}
	delete(r.Header, "Trailer")
	return true
}

// names returns the headers that values of the header Trailer announce.
func names(values []string) []string {
	var out []string
	for _, v := range values {
		for k := range strings.SplitSeq(v, ",") {
			if k = http.CanonicalHeaderKey(strings.TrimSpace(k)); httpguts.ValidTrailerHeader(k) {
				out = append(out, k)
			}
		}
	}
	return out
}

// ofConnections are headers that say something of a connection, which HTTP/2 has no place for.
var ofConnections = map[string]bool{"Connection": true, "Proxy-Connection": true, "Transfer-Encoding": true, "Upgrade": true,
	"Keep-Alive": true}

// request makes the request that the headers describe; nil if they make no sense.
func (c *conn) request(f *http2.MetaHeadersFrame) *http.Request {
	fields := f.RegularFields()
	h := make(http.Header, len(fields)+1)
	values := make([]string, len(fields)) // all at once
	for i, x := range fields {
		k := http.CanonicalHeaderKey(x.Name)
		if ofConnections[k] || k == "Te" && x.Value != "trailers" {
			return nil
		}
		if old := h[k]; old != nil {
			if k == "Cookie" {
				old[0] += "; " + x.Value
				continue
			}
			h[k] = append(old, x.Value)
			continue
		}
		values[i] = x.Value
		h[k] = values[i : i+1 : i+1]
	}
	r := &http.Request{Method: f.PseudoValue("method"), Header: h, Proto: "HTTP/2.0", ProtoMajor: 2, TLS: c.tls, RemoteAddr: c.remote}
	r.Host = f.PseudoValue("authority")
	if r.Host == "" {
		r.Host = h.Get("Host")
	}
	delete(h, "Host")
	if r.Method == "" || !httpguts.ValidHostHeader(r.Host) || strings.Contains(r.Host, "@") || !c.locate(r, f) {
		return nil
	}
	return r
}

// locate sets what the request is for; false if that makes no sense.
func (c *conn) locate(r *http.Request, f *http2.MetaHeadersFrame) bool {
	path, scheme := f.PseudoValue("path"), f.PseudoValue("scheme")
	if r.Method == http.MethodConnect {
		r.URL, r.RequestURI = &url.URL{Host: r.Host}, r.Host
		return path == "" && scheme == "" && r.Host != ""
	}
	if scheme != "http" && scheme != "https" || path == "" || f.PseudoValue("protocol") != "" {
		return false
	}
	if path[0] != '/' && (path != "*" || r.Method != http.MethodOptions) {
		return false
	}
	u, err := url.ParseRequestURI(path)
	if err != nil {
		return false
	}
	r.URL, r.RequestURI = u, path
	return true
}
