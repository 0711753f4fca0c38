package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// stream is an open watch.
type stream struct {
	cancel context.CancelFunc
	header http.Header
	code   int
	mu     sync.Mutex
	events []any
	ended  bool
	status any // body of a non-200 answer
}

func (p *player) openStream(w *Watch) (*stream, error) {
	ctx, cancel := context.WithCancel(context.Background())
	if w.Query == nil {
		w.Query = map[string]any{}
	}
	if _, ok := w.Query["watch"]; !ok && !strings.Contains(w.Path, "/watch/") {
		w.Query["watch"] = "true"
	}
	resp, err := p.c.open(ctx, &w.Request)
	if err != nil {
		cancel()
		return nil, err
	}
	st := &stream{cancel: cancel, header: resp.Header, code: resp.StatusCode}
	if resp.StatusCode != 200 {
		raw, _ := io.ReadAll(resp.Body)
		_ = json.Unmarshal(raw, &st.status)
		resp.Body.Close()
		st.ended = true
		return st, nil
	}
	go func() {
		defer resp.Body.Close()
		d := json.NewDecoder(resp.Body)
		for {
			var ev map[string]any
			err := d.Decode(&ev)
			st.mu.Lock()
			if err != nil {
				st.ended = true
				st.mu.Unlock()
				return
			}
			if t := ev["type"]; !(t == "BOOKMARK" && w.NoMarks) {
				st.events = append(st.events, ev)
			}
			st.mu.Unlock()
		}
	}()
	return st, nil
}

func (p *player) watch(w *Watch) (outcome, any, error) {
	st := p.streams[w.Collect]
	if w.Collect == "" {
		var err error
		if st, err = p.openStream(w); err != nil {
			return outcome{}, nil, err
		}
		if w.Background != "" {
			p.streams[w.Background] = st
			return outcome{facts: map[string]any{"code": st.code}, body: st.status}, nil, nil
		}
	}
	if st == nil {
		return outcome{}, nil, fmt.Errorf("no watch %q", w.Collect)
	}
	limit := 5.0
	if w.Seconds != nil {
		limit = *w.Seconds
	}
	deadline := time.Now().Add(time.Duration(limit * float64(time.Second)))
	for time.Now().Before(deadline) {
		st.mu.Lock()
		done := st.ended || w.Count > 0 && len(st.events) >= w.Count
		st.mu.Unlock()
		if done {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if w.Count > 0 {
		time.Sleep(150 * time.Millisecond) // would there be more than asked for?
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.cancel()
	f := map[string]any{"code": st.code, "contentType": st.header.Get("Content-Type")}
	o := outcome{facts: f, body: st.status, bodies: append([]any{}, st.events...)}
	var last any
	if len(st.events) > 0 {
		last = st.events[len(st.events)-1]
	}
	return o, last, nil
}

func (p *player) wait(st *Step) (outcome, any, error) {
	w := st.Wait
	limit := w.Seconds
	if limit == 0 {
		limit = 30
	}
	deadline := time.Now().Add(time.Duration(limit * float64(time.Second)))
	var resp *response
	var err error
	for pause := 30 * time.Millisecond; ; pause = min(pause*3/2, 500*time.Millisecond) {
		resp, err = p.c.do(&w.Request)
		if err == nil && holds(resp.code, resp.body, w.Until) {
			break
		}
		if time.Now().After(deadline) {
			o := outcome{facts: map[string]any{"met": false}}
			if resp != nil {
				return o, resp.body, nil
			}
			return o, nil, nil
		}
		time.Sleep(pause)
	}
	o := outcome{facts: map[string]any{"met": true}}
	if st.Record.Mode != "" || len(st.Record.Pick) > 0 || st.Record.At != "" {
		o.body = resp.body
	}
	return o, resp.body, nil
}

func (p *player) settle(s *Settle) (outcome, any, error) {
	quiet, limit := s.Quiet, s.Seconds
	if quiet == 0 {
		quiet = 1.5
	}
	if limit == 0 {
		limit = 40
	}
	deadline := time.Now().Add(time.Duration(limit * float64(time.Second)))
	last, since := "", time.Now()
	var bodies []any
	for {
		bodies = nil
		var print []any
		for _, path := range s.Paths {
			base, query, _ := strings.Cut(path, "?")
			req := &Request{Path: base, Query: map[string]any{}}
			for _, kv := range strings.Split(query, "&") {
				if k, v, ok := strings.Cut(kv, "="); ok {
					req.Query[k] = v
				}
			}
			resp, err := p.c.do(req)
			if err != nil {
				return outcome{}, nil, err
			}
			bodies = append(bodies, resp.body)
			print = append(print, getAll(resp.body, "items.metadata.resourceVersion"), getAll(resp.body, "items.metadata.uid"))
			if getAll(resp.body, "items") == nil {
				print = append(print, resp.code, getAll(resp.body, "metadata.resourceVersion"))
			}
		}
		now := mustJSON(print)
		if now != last {
			last, since = now, time.Now()
		}
		if time.Since(since).Seconds() >= quiet {
			return outcome{facts: map[string]any{"settled": true}, bodies: bodies}, bodies[0], nil
		}
		if time.Now().After(deadline) {
			return outcome{facts: map[string]any{"settled": false}, bodies: bodies}, bodies[0], nil
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func gunzip(b []byte) []byte {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return b
	}
	out, err := io.ReadAll(z)
	if err != nil {
		return b
	}
	return out
}
