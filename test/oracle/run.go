package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"
)

// runner plays scenarios against one server.
type runner struct {
	c    *client
	o    options
	vars map[string]any
	home string // kubectl's home and cache
}

// outcome holds the result of one step, before normalisation.
type outcome struct {
	label  string
	facts  map[string]any // recorded as they are
	body   any            // reduced, then recorded
	bodies []any          // several of them (watch events, settled lists)
	record Record
}

// play runs one scenario and returns its normalised transcript.
func (r *runner) play(s *Scenario) map[string]any {
	vars := map[string]any{}
	for k, v := range r.vars {
		vars[k] = v
	}
	for k, v := range s.Vars {
		vars[k] = v
	}
	id := randomID()
	vars["id"] = id
	literal := map[string]string{id: "ID"}
	namespaces, err := r.makeNamespaces(s, vars, literal)
	fail := ""
	if err != nil {
		fail = "namespace: " + err.Error()
	}
	p := &player{runner: r, s: s, vars: vars, streams: map[string]*stream{}}
	var outs []outcome
	for i, raw := range s.Steps {
		if fail != "" {
			break
		}
		var got []outcome
		got, fail = p.step(i, raw)
		outs = append(outs, got...)
	}
	if !r.o.keep {
		r.cleanUp(s, vars, namespaces)
	}
	for _, st := range p.streams {
		st.cancel()
	}
	out := map[string]any{"scenario": s.ID(), "steps": transcript(newNormalizer(s, literal), outs)}
	if fail != "" {
		out["aborted"] = fail
	}
	// Through JSON, so that a fresh transcript and a loaded one have the same types.
	var clean map[string]any
	_ = json.Unmarshal([]byte(mustJSON(out)), &clean)
	return clean
}

// makeNamespaces creates those that a scenario plays in, and gives vars and literal their names.
func (r *runner) makeNamespaces(s *Scenario, vars map[string]any, literal map[string]string) (names []string, err error) {
	count := 1
	if s.Namespaces != nil {
		count = *s.Namespaces
	}
	for i := 0; i < count && err == nil; i++ {
		name, key := "oracle-"+randomID(), "ns"
		if i > 0 {
			key = fmt.Sprint("ns", i+1)
		}
		vars[key] = name
		literal[name] = strings.ToUpper(key)
		err = r.makeNamespace(name, s.NamespaceLabels)
		names = append(names, name)
	}
	return names, err
}

// cleanUp deletes what a scenario names, and its namespaces.
func (r *runner) cleanUp(s *Scenario, vars map[string]any, namespaces []string) {
	for _, path := range s.Cleanup {
		if v, miss := substitute(path, vars); miss == "" {
			_, _ = r.c.do(&Request{Method: "DELETE", Path: v.(string)})
		}
	}
	for _, ns := range namespaces {
		_, _ = r.c.do(&Request{Method: "DELETE", Path: "/api/v1/namespaces/" + ns})
	}
}

// transcript returns the results of the steps, without what differs from run to run.
func transcript(n *normalizer, outs []outcome) []any {
	for _, o := range outs {
		n.learn(o.body)
		n.learn(o.bodies)
	}
	n.prepare()
	var steps []any
	for _, o := range outs {
		m := map[string]any{"step": o.label}
		for k, v := range o.facts {
			m[k] = v
		}
		if o.body != nil {
			if b := n.keep(n.reduce("", o.body), o.record); b != nil {
				m["body"] = b
			}
		}
		if o.bodies != nil {
			m["list"] = n.list(o)
		}
		steps = append(steps, m)
	}
	return n.finish(steps)
}

// list returns what remains of several bodies: of events their type and object.
func (n *normalizer) list(o outcome) []any {
	list := []any{}
	for _, b := range o.bodies {
		ev, ok := b.(map[string]any)
		if !ok || ev["object"] == nil {
			list = append(list, n.keep(n.reduce("", b), o.record))
			continue
		}
		e := map[string]any{"type": ev["type"]}
		if k := n.keep(n.reduce("", ev["object"]), o.record); k != nil {
			e["object"] = k
		}
		list = append(list, e)
	}
	return list
}

// makeNamespace creates a namespace whose default service account exists, with
// or without a controller that makes one.
func (r *runner) makeNamespace(name string, labels map[string]string) error {
	meta := map[string]any{"name": name, "labels": map[string]any{"oracle": "true"}}
	for k, v := range labels {
		meta["labels"].(map[string]any)[k] = v
	}
	resp, err := r.c.do(&Request{
		Method: "POST", Path: "/api/v1/namespaces",
		Body: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": meta},
	})
	if err != nil {
		return err
	}
	if resp.code != 201 {
		return fmt.Errorf("code %d: %.500s", resp.code, resp.raw)
	}
	_, err = r.c.do(&Request{Method: "POST", Path: "/api/v1/namespaces/" + name + "/serviceaccounts",
		Body: map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": "default"}}})
	return err
}

// given are the ids that were handed out: of a thousand and more, two would be equal now and then, and the second find the namespace of
// the first.
var given sync.Map

// randomID is 6 characters, the first a letter, none a vowel, and never the same twice.
func randomID() string {
	const letters, all = "bcdfghjklmnpqrstvwxz", "bcdfghjklmnpqrstvwxz2456789"
	for {
		b := []byte{letters[rand.IntN(len(letters))], 0, 0, 0, 0, 0}
		for i := 1; i < len(b); i++ {
			b[i] = all[rand.IntN(len(all))]
		}
		if _, again := given.LoadOrStore(string(b), true); !again {
			return string(b)
		}
	}
}

// player holds the state of a scenario while it runs.
type player struct {
	*runner
	s       *Scenario
	vars    map[string]any
	streams map[string]*stream
}

// step runs the i-th step; a non-empty second result aborts the scenario.
func (p *player) step(i int, raw map[string]any) ([]outcome, string) {
	items := []any{nil}
	if rep, ok := raw["repeat"]; ok {
		v, miss := substitute(rep, p.vars)
		if miss != "" {
			return nil, "unknown variable " + miss
		}
		items, _ = v.([]any)
	}
	var outs []outcome
	for _, item := range items {
		if item != nil {
			p.vars["item"] = item
		}
		body := map[string]any{}
		for k, v := range raw {
			if k != "repeat" {
				body[k] = v
			}
		}
		v, miss := substitute(body, p.vars)
		if miss != "" {
			return outs, fmt.Sprintf("step %d: unknown variable %s", i+1, miss)
		}
		var st Step
		if err := convert(v, &st); err != nil {
			return outs, fmt.Sprintf("step %d: %v", i+1, err)
		}
		o, resp, err := p.dispatch(&st)
		if err != nil {
			o.facts = map[string]any{"error": "no answer"}
			if p.o.verbose {
				fmt.Fprintln(os.Stderr, p.s.ID(), "step", i+1, err)
			}
		}
		o.label = fmt.Sprintf("%d %s", i+1, describe(&st))
		if st.Name != "" {
			o.label = fmt.Sprintf("%d %s", i+1, st.Name)
		}
		o.record = st.Record
		outs = append(outs, o)
		for name, path := range st.Capture {
			got := getAll(resp, path)
			if len(got) == 0 {
				return outs, fmt.Sprintf("step %d: nothing to capture at %s", i+1, path)
			}
			p.vars[name] = got[0]
		}
	}
	return outs, ""
}

func describe(st *Step) string {
	switch {
	case st.Request != nil:
		m := st.Request.Method
		if m == "" {
			m = "GET"
		}
		return m + " " + st.Request.Path
	case st.Watch != nil:
		return "watch " + st.Watch.Path + st.Watch.Collect
	case st.Wait != nil:
		return "wait " + st.Wait.Path
	case st.Settle != nil:
		return "settle " + strings.Join(st.Settle.Paths, " ")
	case st.Kubectl != nil:
		return "kubectl " + strings.Join(st.Kubectl.Args, " ")
	}
	return "?"
}

func (p *player) dispatch(st *Step) (outcome, any, error) {
	switch {
	case st.Request != nil:
		resp, err := p.c.do(st.Request)
		if err != nil {
			return outcome{}, nil, err
		}
		return p.answered(st, resp), resp.body, nil
	case st.Watch != nil:
		return p.watch(st.Watch)
	case st.Wait != nil:
		return p.wait(st)
	case st.Settle != nil:
		return p.settle(st.Settle)
	case st.Kubectl != nil:
		return p.kubectl(st.Kubectl)
	}
	return outcome{}, nil, fmt.Errorf("empty step")
}

// answered turns an HTTP answer into facts.
func (p *player) answered(st *Step, resp *response) outcome {
	f := map[string]any{"code": resp.code, "contentType": resp.header.Get("Content-Type"), "warnings": len(resp.header.Values("Warning"))}
	for k, name := range map[string]string{
		"Content-Encoding": "contentEncoding", "Location": "location", "Retry-After": "retryAfter", "Allow": "allow",
	} {
		if v := resp.header.Get(k); v != "" {
			f[name] = v
			if k == "Retry-After" {
				f[name] = "<seconds>"
			}
		}
	}
	o := outcome{facts: f, body: resp.body}
	if resp.body == nil && len(resp.raw) > 0 {
		switch {
		case bytes.HasPrefix(resp.raw, []byte("k8s\x00")):
			f["bodyIs"] = "protobuf"
		case st.Record.Mode == "text":
			f["text"] = strings.Split(strings.TrimSpace(string(resp.raw)), "\n")
		default:
			f["bodyIs"] = "other"
			var v any
			if strings.Contains(resp.header.Get("Content-Type"), "yaml") && yaml.Unmarshal(resp.raw, &v) == nil {
				f["bodyIs"] = "yaml"
				o.body = v
			}
		}
	}
	return o
}
