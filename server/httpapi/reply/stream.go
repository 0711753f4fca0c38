package reply

import (
	"bufio"
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Emit takes the next parts of a body.
type Emit func(parts ...[]byte) error

// Stream sends a body as it is produced. size is its length, if that is known, else -1. Once it has begun, an error
// can only be told by breaking the connection: what was sent must not look whole.
func (s Sender) Stream(w http.ResponseWriter, r *http.Request, mediaType string, size int, produce func(Emit) error) {
	h := w.Header()
	h.Set("Content-Type", mediaType)
	rc := http.NewResponseController(w)
	guard := time.AfterFunc(s.Stall, func() { _ = rc.SetWriteDeadline(time.Unix(1, 0)) })
	defer guard.Stop()
	var to io.Writer = w
	var z *gzip.Writer
	if acceptsGzip(r) && !near(r) {
		h.Set("Content-Encoding", "gzip")
		h.Add("Vary", "Accept-Encoding")
		z = gzips.Get().(*gzip.Writer)
		defer gzips.Put(z)
		z.Reset(w)
		to = z
	} else if size >= 0 {
		h.Set("Content-Length", strconv.Itoa(size))
	}
	w.WriteHeader(http.StatusOK)
	out := bufio.NewWriterSize(to, 64<<10)
	err := produce(func(parts ...[]byte) error {
		for _, p := range parts {
			if _, err := out.Write(p); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = out.Flush()
	}
	if err == nil && z != nil {
		err = z.Close()
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}
