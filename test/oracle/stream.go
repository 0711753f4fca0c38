package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/yaml"
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

var (
	reServerErr = regexp.MustCompile(`Error from server \((\w+)\)`)
	reAgeWord   = regexp.MustCompile(`(^|[\s(])(\d+[ydhms]){1,3}($|[\s)])`)
	reSpaces    = regexp.MustCompile(`\s{2,}`)
	reClock     = regexp.MustCompile(`\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}`)
	reStamp     = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
)

func (p *player) kubectl(k *Kubectl) (outcome, any, error) {
	args := []string{"--kubeconfig", p.o.kubeconfig, "--cache-dir", p.home + "/cache"}
	scoped := false
	for _, a := range k.Args {
		scoped = scoped || a == "-n" || a == "-A" || strings.HasPrefix(a, "--namespace") || a == "--all-namespaces"
	}
	if ns, ok := p.vars["ns"].(string); ok && !scoped {
		args = append(args, "--namespace", ns)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.o.kubectl, append(args, k.Args...)...)
	cmd.Env = append(os.Environ(), "HOME="+p.home, "KUBECTL_EXTERNAL_DIFF=diff -u -N -L a -L b", "KUBERC=off")
	switch in := k.Stdin.(type) {
	case string:
		cmd.Stdin = strings.NewReader(in)
	case []any:
		var b strings.Builder
		for _, o := range in {
			y, _ := yaml.Marshal(o)
			b.WriteString("---\n" + string(y))
		}
		cmd.Stdin = strings.NewReader(b.String())
	case map[string]any:
		y, _ := yaml.Marshal(in)
		cmd.Stdin = bytes.NewReader(y)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	f := map[string]any{"exit": cmd.ProcessState.ExitCode()}
	if err != nil && cmd.ProcessState == nil {
		return outcome{}, nil, err
	}
	if m := reServerErr.FindStringSubmatch(stderr.String()); m != nil {
		f["serverReason"] = m[1]
	}
	f["stderr"] = stderr.Len() > 0
	o := outcome{facts: f}
	switch k.As {
	case "none":
	case "json", "yaml":
		var v any
		if yaml.Unmarshal(stdout.Bytes(), &v) == nil {
			o.body = v
		}
		return o, v, nil
	case "keys":
		o.body = map[string]any{"keys": describeKeys(stdout.String())}
	default:
		lines := []any{}
		for _, l := range strings.Split(strings.TrimRight(stdout.String(), "\n"), "\n") {
			l = reClock.ReplaceAllString(l, "<clock>")
			l = reStamp.ReplaceAllString(l, "<time>")
			for range 2 {
				l = reAgeWord.ReplaceAllString(l, "$1<age>$3")
			}
			indent := l[:len(l)-len(strings.TrimLeft(l, " "))]
			l = indent + reSpaces.ReplaceAllString(strings.TrimSpace(l), "  ")
			lines = append(lines, l)
			if k.Lines > 0 && len(lines) == k.Lines {
				break
			}
		}
		o.body = map[string]any{"stdout": lines}
	}
	if k.Sort {
		// sorted after masking, see Record.Unordered
		if m, ok := o.body.(map[string]any); ok && m["stdout"] != nil {
			l := m["stdout"].([]any)
			n := newNormalizer(p.s, map[string]string{scalar(p.vars["ns"]): "NS", scalar(p.vars["id"]): "ID"})
			n.prepare()
			m["stdout"] = n.sorted(l)
		}
	}
	return o, o.body, nil
}

// describeKeys keeps the headings of kubectl's describe and explain output.
func describeKeys(s string) []any {
	keys := []any{}
	for _, l := range strings.Split(s, "\n") {
		if strings.HasPrefix(l, "Events:") {
			keys = append(keys, "Events:")
			break
		}
		t := strings.TrimSpace(l)
		if i := strings.Index(t, ":"); i > 0 && i < 40 && !strings.Contains(t[:i], "  ") {
			keys = append(keys, l[:len(l)-len(strings.TrimLeft(l, " \t"))]+t[:i+1])
		}
	}
	return keys
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
