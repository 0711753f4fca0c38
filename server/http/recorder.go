package httpapi

import (
	"bufio"
	"net"
	"net/http"
)

// recorder notes what was answered. Unwrap lets http.ResponseController reach the connection.
type recorder struct {
	http.ResponseWriter
	code  int
	bytes int64
}

func (rec *recorder) WriteHeader(code int) {
	if rec.code == 0 {
		rec.code = code
	}
	rec.ResponseWriter.WriteHeader(code)
}

func (rec *recorder) Write(b []byte) (int, error) {
	if rec.code == 0 {
		rec.code = http.StatusOK
	}
	n, err := rec.ResponseWriter.Write(b)
	rec.bytes += int64(n)
	return n, err
}

// Unwrap serves http.ResponseController.
func (rec *recorder) Unwrap() http.ResponseWriter { return rec.ResponseWriter }

// Flush implements http.Flusher for libraries that ask for it.
func (rec *recorder) Flush() { _ = http.NewResponseController(rec.ResponseWriter).Flush() }

// Hijack implements http.Hijacker for libraries that ask for it.
func (rec *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if rec.code == 0 {
		rec.code = http.StatusSwitchingProtocols
	}
	return http.NewResponseController(rec.ResponseWriter).Hijack()
}
