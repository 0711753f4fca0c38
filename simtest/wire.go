package simtest

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// wire is the way from one life of an operator to the API server: each of its requests passes here, and meets its fault.
type wire struct {
	w    *World
	next http.RoundTripper
}

// distance is the time that requests take, reads and writes. They must take time: an operator with an old cache
// and a loop of the cluster may undo each other's work at once and forever, and the clock would stand still.
var distance = map[bool]time.Duration{false: 5 * time.Millisecond, true: 50 * time.Millisecond}

var errDead = errors.New("this life of the operator is over")

// RoundTrip implements http.RoundTripper.
func (x *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	l, run := x.w.life, x.w.run
	site := siteOf(r)
	if site == "" && !strings.Contains(r.URL.Path, "/namespaces/") { // it asks what is served, and may hold a lock for which others wait
		if err := x.reach(l); err != nil {
			return nil, err
		}
		return x.next.RoundTrip(r)
	}
	verb, what, _ := strings.Cut(site, " ")
	if site != "" && !sleep(r.Context(), distance[writes(verb)]) {
		return nil, r.Context().Err()
	}
	if l.exact > 0 {
		r = x.older(r, verb)
	}
	x.w.door.turns.wait(r.Context(), r.Method+" "+about(r))
	if err := x.reach(l); err != nil {
		return nil, err
	}
	if site == "" {
		return x.next.RoundTrip(r)
	}
	f := run.pass(site)
	if verb == "watch" {
		r = x.lasting(r, run.lasts())
	}
	if f == nil {
		return x.send(r, verb, what)
	}
	switch f.Kind {
	case Refused:
		return nil, errCut
	case Slow:
		sleep(r.Context(), f.For)
	case LateAnswer:
		resp, err := x.send(r, verb, what)
		if err == nil && !sleep(r.Context(), f.For) {
			_ = resp.Body.Close()
			return nil, r.Context().Err()
		}
		return resp, err
	case Conflict:
		return answer(r, http.StatusConflict, "Conflict", "the object has been modified; please apply your changes to the latest version"), nil
	case CrashBefore:
		x.w.crash(f)
		return nil, errDead
	case Unanswered, CrashAfter, Stale:
		if resp, err := x.send(r, verb, what); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		if f.Kind != Unanswered {
			x.w.crash(f)
		}
		return nil, errCut
	}
	return x.send(r, verb, what)
}

// reach fails when the operator is dead or cut off.
func (x *wire) reach(l *life) error {
	x.w.run.mu.Lock()
	defer x.w.run.mu.Unlock()
	switch {
	case l.dead.Load():
		return errDead
	case time.Now().Before(x.w.run.cut):
		return errCut
	}
	return nil
}

// send sends a request. The events of a watch pass through a filter.
func (x *wire) send(r *http.Request, verb, what string) (*http.Response, error) {
	resp, err := x.next.RoundTrip(r)
	if err != nil || x.w.life.dead.Load() {
		if err == nil {
			_ = resp.Body.Close()
			err = errDead
		}
		return nil, err
	}
	if verb == "watch" && resp.StatusCode == http.StatusOK {
		resp.Body = newEvents(x.w, r, resp, what)
	}
	return resp, nil
}

// timeout is the parameter of a watch that clients choose by chance.
const timeout = "timeoutSeconds"

// about names what a request is about, without what chance has put into it.
func about(r *http.Request) string {
	q := r.URL.Query()
	q.Del(timeout)
	return r.URL.Path + "?" + q.Encode()
}

// lasting has a watch end after so long.
func (x *wire) lasting(r *http.Request, d time.Duration) *http.Request {
	r = r.Clone(r.Context())
	q := r.URL.Query()
	q.Set(timeout, strconv.Itoa(int(d/time.Second)))
	r.URL.RawQuery = q.Encode()
	return r
}

// older has a list that may be old answered from an old state, and holds a watch back.
func (x *wire) older(r *http.Request, verb string) *http.Request {
	l, q := x.w.life, r.URL.Query()
	switch {
	case verb == "watch" && q.Get("sendInitialEvents") == "": // others are refused, and a list follows
		sleep(r.Context(), time.Until(l.until))
	case verb == "list" && q.Get("resourceVersion") == "0" && time.Now().Before(l.until):
		r = r.Clone(r.Context())
		q.Set("resourceVersion", strconv.FormatInt(l.exact, 10))
		q.Set("resourceVersionMatch", "Exact")
		if q.Get("limit") == "" {
			q.Set("limit", "10000")
		}
		r.URL.RawQuery = q.Encode()
	}
	return r
}

// siteOf names what a request is for: a verb and a resource. It is empty for discovery, leases and events, which no fault hits.
func siteOf(r *http.Request) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 2:
		parts = parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		parts = parts[3:]
	default:
		return ""
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	what, named := parts[0], len(parts) > 1
	if what == "leases" || what == "events" {
		return ""
	}
	if len(parts) > 2 {
		what += "/" + parts[2]
	}
	verb := map[string]string{http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch",
		http.MethodDelete: "delete"}[r.Method]
	switch {
	case verb != "":
	case r.URL.Query().Get("watch") != "":
		verb = "watch"
	case named:
		verb = "get"
	default:
		verb = "list"
	}
	return verb + " " + what
}

// answer is an answer that the server did not give.
func answer(r *http.Request, code int, reason, message string) *http.Response {
	body := status(code, reason, message)
	return &http.Response{StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r, ContentLength: int64(len(body)),
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}
}

func status(code int, reason, message string) string {
	return `{"kind":"Status","apiVersion":"v1","status":"Failure","message":` + strconv.Quote(message) + `,"reason":"` + reason +
		`","code":` + strconv.Itoa(code) + `}`
}
