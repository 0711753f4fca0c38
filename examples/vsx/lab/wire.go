package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// A Mishap befalls a request on its way.
type Mishap int

// The mishaps.
const (
	Nothing  Mishap = iota
	Lost            // it never comes to the switch
	Unheard         // the switch does it, and the answer is lost
	Refused         // the switch fails: 500
	Swallows        // nothing comes back until the caller gives up
)

// A Wire reaches the switches core01 and core02, units 0 and 1, without sockets, so that simulated time can pass. Its functions are
// called for both units at the same time, and for one unit as its caller's requests come.
type Wire struct {
	Lab     *Lab
	Latency func(unit int) time.Duration // each way
	Mishap  func(unit int) Mishap        // nil: nothing happens
}

var (
	errRoute = errors.New("no route to host")
	errReset = errors.New("connection reset by peer")
)

// RoundTrip implements http.RoundTripper.
func (w *Wire) RoundTrip(r *http.Request) (*http.Response, error) {
	unit := 0
	if strings.HasPrefix(r.URL.Host, "core02") {
		unit = 1
	}
	s := w.Lab.Switch(unit)
	path := r.URL.Path
	if r.Method != http.MethodGet && !strings.HasSuffix(path, "/login") && !strings.HasSuffix(path, "/logout") {
		s.Writing(true)
		defer s.Writing(false)
	}
	if err := pause(r.Context(), w.Latency(unit)); err != nil {
		return nil, err
	}
	fate := Nothing
	if w.Mishap != nil {
		fate = w.Mishap(unit)
	}
	switch fate {
	case Lost:
		return nil, errReset
	case Swallows:
		<-r.Context().Done()
		return nil, r.Context().Err()
	case Refused:
		return answerOf(r, http.StatusInternalServerError, nil, []byte("Internal error")), nil
	}
	rec := &recorder{header: http.Header{}, code: http.StatusOK}
	if !rec.serve(s, r) {
		return nil, errors.Join(errRoute, pause(r.Context(), 3*time.Second))
	}
	if err := pause(r.Context(), w.Latency(unit)); err != nil {
		return nil, err
	}
	if fate == Unheard {
		return nil, errReset
	}
	return answerOf(r, rec.code, rec.header, rec.body.Bytes()), nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func answerOf(r *http.Request, code int, h http.Header, body []byte) *http.Response {
	if h == nil {
		h = http.Header{}
	}
	return &http.Response{StatusCode: code, Status: fmt.Sprint(code), Header: h, Body: io.NopCloser(bytes.NewReader(body)), Request: r}
}

// recorder keeps an answer.
type recorder struct {
	header http.Header
	body   bytes.Buffer
	code   int
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }
func (r *recorder) WriteHeader(code int)        { r.code = code }

// serve has the switch answer; false: nobody did.
func (r *recorder) serve(s *Switch, req *http.Request) (answered bool) {
	defer func() {
		if p := recover(); p != nil && p != any(http.ErrAbortHandler) {
			panic(p)
		}
	}()
	s.ServeHTTP(r, req)
	return true
}
