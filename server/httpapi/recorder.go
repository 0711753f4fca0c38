package httpapi

import (
	"bufio"
	"net"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/server/audit"
)

// recorder notes what was answered. Unwrap lets http.ResponseController reach the connection.
type recorder struct {
	http.ResponseWriter
	code   int
	bytes  int64
	audit  *audit.Record  // nil: nobody records the request
	stream bool           // the answer may take as long as it likes
	failed *metav1.Status // what was answered in place of what was asked for
}

// began notes the code of the answer, once.
func (rec *recorder) began(code int) {
	if rec.code == 0 {
		rec.code = code
		rec.audit.Started(code, rec.stream)
	}
}

func (rec *recorder) WriteHeader(code int) {
	rec.began(code)
	rec.ResponseWriter.WriteHeader(code)
}

func (rec *recorder) Write(b []byte) (int, error) {
	rec.began(http.StatusOK)
	n, err := rec.ResponseWriter.Write(b)
	rec.bytes += int64(n)
	return n, err
}

// Failed implements reply.Noter.
func (rec *recorder) Failed(st *metav1.Status) {
	rec.failed = st
	rec.audit.Answer(st)
}

// Unwrap serves http.ResponseController.
func (rec *recorder) Unwrap() http.ResponseWriter { return rec.ResponseWriter }

// Flush implements http.Flusher for libraries that ask for it.
func (rec *recorder) Flush() { _ = http.NewResponseController(rec.ResponseWriter).Flush() }

// Hijack implements http.Hijacker for libraries that ask for it.
func (rec *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	rec.began(http.StatusSwitchingProtocols)
	return http.NewResponseController(rec.ResponseWriter).Hijack()
}
