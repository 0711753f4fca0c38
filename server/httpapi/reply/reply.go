package reply

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/resource/codec"
)

// stallFrom is the size from which an answer is watched for clients that do not take it.
const stallFrom = 32 << 10

// gzipFrom is the size from which answers are compressed when the client asks for it; those to clients on this machine
// up to gzipNear, which is a few milliseconds' work.
const (
	gzipFrom = 128 << 10
	gzipNear = 1 << 20
)

// A Sender writes answers. It is safe for concurrent use.
type Sender struct {
	Stall time.Duration // how long a client may take over the whole of an answer
}

// Object answers with an object that carries its own apiVersion and kind.
func (s Sender) Object(w http.ResponseWriter, r *http.Request, acc Accepted, code int, obj runtime.Object) {
	if acc.Format == Proto {
		raw, err := codec.MarshalProto(obj)
		if err == nil {
			s.Write(w, r, code, codec.Protobuf, raw)
			return
		}
		acc.Format = JSON
	}
	doc, err := codec.MarshalJSON(obj)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s.Document(w, r, acc, code, doc)
}

// Document answers with a JSON document, as it is, indented, or as YAML.
func (s Sender) Document(w http.ResponseWriter, r *http.Request, acc Accepted, code int, doc []byte) {
	switch {
	case acc.Format == YAML:
		text, err := ToYAML(doc)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		s.Write(w, r, code, codec.YAML, text)
	case acc.Pretty:
		var b bytes.Buffer
		if err := json.Indent(&b, doc, "", "  "); err != nil {
			b.Reset()
			b.Write(doc)
		}
		s.Write(w, r, code, codec.JSON, b.Bytes())
	default:
		s.Write(w, r, code, codec.JSON, doc, Newline)
	}
}

// Newline ends a JSON document on the wire.
var Newline = []byte("\n")

// Write sends the parts of a body, which it does not change, compressed if that is wanted and worth it.
func (s Sender) Write(w http.ResponseWriter, r *http.Request, code int, mediaType string, parts ...[]byte) {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	h := w.Header()
	h.Set("Content-Type", mediaType)
	if size > stallFrom {
		rc := http.NewResponseController(w)
		guard := time.AfterFunc(s.Stall, func() { _ = rc.SetWriteDeadline(time.Unix(1, 0)) })
		defer guard.Stop()
	}
	if size > gzipFrom && acceptsGzip(r) && (size <= gzipNear || !near(r)) {
		writeGzip(w, code, parts)
		return
	}
	h.Set("Content-Length", strconv.Itoa(size))
	w.WriteHeader(code)
	if size > 4096 && len(parts) > 2 {
		writeBuffered(w, parts)
		return
	}
	for _, p := range parts {
		if _, err := w.Write(p); err != nil {
			return // the client has gone
		}
	}
}

// bufferKeep is the size up to which a buffer that had to grow is used again.
const bufferKeep = 256 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 64<<10); return &b }}

// Borrow returns a buffer for a while; Return gives it back, as b if it has grown.
func Borrow() *[]byte { return buffers.Get().(*[]byte) }

// Return gives back what Borrow lent.
func Return(bp *[]byte, b []byte) {
	if cap(b) <= bufferKeep {
		*bp = b
	}
	buffers.Put(bp)
}

// writeBuffered gathers small parts, so that a list of ten thousand items is not ten thousand frames.
func writeBuffered(w io.Writer, parts [][]byte) {
	bp := buffers.Get().(*[]byte)
	defer buffers.Put(bp)
	b := (*bp)[:0]
	for _, p := range parts {
		if len(b)+len(p) > cap(b) {
			if _, err := w.Write(b); err != nil {
				return
			}
			b = b[:0]
		}
		if len(p) > cap(b) {
			if _, err := w.Write(p); err != nil {
				return
			}
			continue
		}
		b = append(b, p...)
	}
	_, _ = w.Write(b)
}

var gzips = sync.Pool{New: func() any {
	z, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed) // the level is valid
	return z
}}

func writeGzip(w http.ResponseWriter, code int, parts [][]byte) {
	w.Header().Set("Content-Encoding", "gzip")
	w.Header().Add("Vary", "Accept-Encoding")
	w.WriteHeader(code)
	z := gzips.Get().(*gzip.Writer)
	defer gzips.Put(z)
	z.Reset(w)
	for _, p := range parts {
		if _, err := z.Write(p); err != nil {
			return
		}
	}
	_ = z.Close()
}

// acceptsGzip looks for the bare word, as upstream does: with a quality it is another one.
func acceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		if strings.TrimSpace(part) == "gzip" {
			return true
		}
	}
	return false
}

// near says that the client is on this machine, where compressing costs more than it saves: 25 ms for a list of ten
// thousand pods, on the very processors that the client then needs to undo it.
//
// Unlike Kubernetes, a server does not compress large answers to clients on its own machine, though they ask for it.
func near(r *http.Request) bool {
	client, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	if client.Addr().IsLoopback() {
		return true
	}
	own, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && own.AddrPort().Addr().Unmap() == client.Addr().Unmap()
}

// ToYAML turns a JSON document into YAML. It is read as YAML for that, which unlike JSON has no place for control
// characters and takes some others for the ends of lines: they are escaped.
func ToYAML(doc []byte) ([]byte, error) {
	odd := func(r rune) bool {
		return r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 || r == 0xfeff || r == 0xfffe || r == 0xffff
	}
	if bytes.ContainsFunc(doc, odd) {
		var safe bytes.Buffer
		for _, r := range string(doc) {
			if odd(r) {
				fmt.Fprintf(&safe, "\\u%04x", r)
			} else {
				safe.WriteRune(r)
			}
		}
		doc = safe.Bytes()
	}
	return yaml.JSONToYAML(doc)
}
