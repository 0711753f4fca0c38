package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// A talk is a course with two servers that have no loops: what counts is every answer, whole. In its texts %WORD% stands
// for one of the values of that word, $rv, $uid and $name for those of the object answered last, $first for the revision
// of the first answer of all, and $continue and $token for what was answered last under these names.

// filled chooses a value for every word in every step.
func (c course) filled(steps []step, r *rand.Rand) []step {
	names := slices.Sorted(maps.Keys(c.Words))
	all := slices.Clone(steps)
	for i := range all {
		chosen := map[string]any{}
		for _, name := range names {
			chosen["%"+name+"%"] = c.Words[name][r.Intn(len(c.Words[name]))]
		}
		all[i].Do, _ = fill(all[i].Do, chosen, true).(string)
		all[i].Body = fill(all[i].Body, chosen, false)
		all[i].Content, _ = fill(all[i].Content, chosen, false).(string)
		all[i].Accept, _ = fill(all[i].Accept, chosen, false).(string)
		as := map[string]string{}
		for name, v := range all[i].As {
			name, _ = fill(name, chosen, false).(string)
			as[name], _ = fill(v, chosen, false).(string)
		}
		all[i].As = as
	}
	return all
}

// fill makes a copy of a tree. A text that is a word alone becomes its value, of whatever type; a word that was chosen to
// be null is left out.
func fill(tree any, chosen map[string]any, inPath bool) any {
	switch tree := tree.(type) {
	case map[string]any:
		next := map[string]any{}
		for name, v := range tree {
			name, _ = fill(name, chosen, inPath).(string)
			if is, ok := chosen[fmt.Sprint(v)]; ok && is == nil {
				continue
			}
			next[name] = fill(v, chosen, inPath)
		}
		return next
	case []any:
		next := []any{}
		for _, v := range tree {
			if is, ok := chosen[fmt.Sprint(v)]; ok && is == nil {
				continue
			}
			next = append(next, fill(v, chosen, inPath))
		}
		return next
	case string:
		if !strings.Contains(tree, "%") {
			return tree
		}
		if v, ok := chosen[tree]; ok {
			return v
		}
		words := slices.Sorted(maps.Keys(chosen))
		for _, word := range slices.Concat(words, words) { // values have words, too
			text := ""
			if v := chosen[word]; v != nil {
				text = fmt.Sprint(v)
			}
			tree = strings.ReplaceAll(tree, word, text)
		}
		return tree
	}
	return tree
}

// talkAll has the talks with both servers.
func talkAll(ctx context.Context, p *pair, c config, only *regexp.Regexp, r *report) error {
	list, err := readCourses(c.talks)
	if err != nil {
		return err
	}
	work := make(chan played)
	var all sync.WaitGroup
	for range c.workers {
		all.Go(func() {
			for one := range work {
				(&talk{pair: p, report: r, played: one, heard: map[*server]*heard{}}).have(ctx)
			}
		})
	}
	for _, one := range list {
		if !only.MatchString(one.Name) {
			continue
		}
		for _, drawn := range one.draw(c.most, c.length, c.seed) {
			if ctx.Err() != nil {
				break
			}
			work <- drawn
		}
	}
	close(work)
	all.Wait()
	return ctx.Err()
}

type talk struct {
	pair   *pair
	report *report
	played
	heard map[*server]*heard
}

// heard keeps the words of a server for later steps.
type heard struct {
	names    map[string]string // what stands for what
	revision map[string]string // by uid
}

func (t *talk) have(ctx context.Context) {
	for _, on := range []*server{t.pair.a, t.pair.b} {
		t.heard[on] = &heard{names: map[string]string{"$ns": t.ns}, revision: map[string]string{}}
		on.ask(ctx, trial{method: "POST", path: "/api/v1/namespaces", content: jsonType},
			encode(map[string]any{"metadata": map[string]any{"name": t.ns}}))
		on.ask(ctx, trial{method: "POST", path: "/api/v1/namespaces/" + t.ns + "/serviceaccounts", content: jsonType},
			[]byte(`{"metadata":{"name":"default"}}`))
		defer t.clear(context.WithoutCancel(ctx), on)
	}
	var told []string
	for _, one := range slices.Concat(t.begin, t.steps) {
		told = append(told, one.String())
		q := trial{kind: t.Name, verb: "talk", field: t.title(one), what: fmt.Sprint(len(told)), path: t.ns,
			bodyA: []byte(strings.Join(told, "\n  "))}
		if wait, ok := strings.CutPrefix(one.Do, "WAIT "); ok {
			rest, _ := time.ParseDuration(wait)
			pause(ctx, rest)
			continue
		}
		a, b := t.send(ctx, t.pair.a, one), t.send(ctx, t.pair.b, one)
		if ctx.Err() != nil {
			return
		}
		if t.report.add(q, inOrder(a), inOrder(b)); a.code != b.code {
			return
		}
	}
}

// title tells a step in a few words.
func (t *talk) title(one step) string {
	return strings.ReplaceAll(fmt.Sprintf("%s %.120s", one.Do, encode(one.Body)), t.ns, "$ns")
}

// clear removes what a talk leaves.
func (t *talk) clear(ctx context.Context, on *server) {
	for _, path := range append(slices.Clone(t.Also), "/api/v1/namespaces/"+t.ns) {
		on.ask(ctx, trial{method: "DELETE", path: strings.ReplaceAll(path, "$ns", t.ns)}, nil)
	}
}

func (t *talk) send(ctx context.Context, on *server, one step) answer {
	h := t.heard[on]
	var pairs, inPath []string
	for _, name := range slices.SortedFunc(maps.Keys(h.names), func(a, b string) int { return len(b) - len(a) }) {
		pairs, inPath = append(pairs, name, h.names[name]), append(inPath, name, url.QueryEscape(h.names[name]))
	}
	names := strings.NewReplacer(pairs...)
	method, path, _ := strings.Cut(strings.NewReplacer(inPath...).Replace(one.Do), " ")
	q := trial{method: method, path: strings.ReplaceAll(path, " ", "%20"), content: one.Content, accept: one.Accept,
		headers: map[string]string{}}
	for name, v := range one.As {
		q.headers[name] = names.Replace(v)
	}
	if q.content == "" {
		q.content = map[string]string{"PATCH": mergeType, "POST": jsonType, "PUT": jsonType, "DELETE": jsonType}[method]
	}
	var body []byte
	switch text := one.Body.(type) {
	case nil:
	case string: // as it is
		body = []byte(names.Replace(text))
	default:
		body = []byte(names.Replace(string(encode(one.Body))))
	}
	got := on.ask(ctx, q, body)
	if strings.Contains(path, "watch=") && got.code == 200 {
		got.body = eventsOf(got.text)
	}
	h.hear(&got)
	return got
}

// inOrder sorts entries of managed fields, whose order is that of time, and takes out uids and the ends of names that
// were made up.
func inOrder(got answer) answer {
	got.text = someName.ReplaceAllString(got.text, "-*")
	if got.body != nil {
		data := uidKey.ReplaceAll(someName.ReplaceAll(encode(got.body), []byte("-*")), []byte("*"))
		got.body = nil
		if json.Unmarshal(data, &got.body) != nil {
			return got
		}
	}
	var walk func(tree any)
	walk = func(tree any) {
		switch tree := tree.(type) {
		case map[string]any:
			if list, ok := tree["managedFields"].([]any); ok {
				slices.SortFunc(list, func(a, b any) int { return strings.Compare(owner(a), owner(b)) })
			}
			for _, name := range []string{"resourceRules", "nonResourceRules"} { // of a review: bindings in no order
				list, _ := tree[name].([]any)
				slices.SortFunc(list, func(a, b any) int { return strings.Compare(string(encode(a)), string(encode(b))) })
			}
			delete(tree, "authentication.kubernetes.io/credential-id")
			delete(tree, "serverAddress")
			for _, v := range tree {
				walk(v)
			}
		case []any:
			for _, v := range tree {
				walk(v)
			}
		}
	}
	walk(got.body)
	return got
}

func owner(entry any) string {
	var all []string
	for _, name := range []string{"manager", "operation", "subresource", "apiVersion"} {
		all = append(all, word(entry, name))
	}
	return strings.Join(all, " ")
}

// eventsOf reads what a watch told. Bookmarks are a matter of time, but for the one after the first events.
func eventsOf(text string) any {
	all := []any{}
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	for d.More() {
		var one map[string]any
		if d.Decode(&one) != nil {
			break
		}
		if word(one, "type") != "BOOKMARK" || strings.Contains(string(encode(one)), "initial-events-end") {
			all = append(all, one)
		}
	}
	return all
}

// hear remembers what later steps name, and notes whether an object was written anew.
func (h *heard) hear(got *answer) {
	tree, _ := got.body.(map[string]any)
	rv, uid := word(tree, "metadata", "resourceVersion"), word(tree, "metadata", "uid")
	for name, v := range map[string]string{"$rv": rv, "$uid": uid, "$name": word(tree, "metadata", "name"),
		"$continue": word(tree, "metadata", "continue"), "$token": word(tree, "status", "token")} {
		if v != "" && got.code < 300 {
			h.names[name] = v
		}
	}
	if rv != "" && h.names["$first"] == "" {
		h.names["$first"] = rv
	}
	if uid == "" || rv == "" {
		return
	}
	if before := h.revision[uid]; before != "" {
		tree["written anew"] = before != rv
	}
	h.revision[uid] = rv
}
