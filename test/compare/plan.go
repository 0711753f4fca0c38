package main

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"log"
	"math/rand"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A plan knows what can be asked.
type plan struct {
	pair    *pair
	places  []place
	schemas map[gvk]*schema
	only    *regexp.Regexp
	most    int
	seed    int64
}

// prepare makes the namespace that seeds are in and the seeds that come first, and reads what there is then.
func (p *plan) prepare(ctx context.Context, seeds []map[string]any) (err error) {
	for _, s := range []*server{p.pair.a, p.pair.b} {
		s.ask(ctx, trial{method: "POST", path: "/api/v1/namespaces", content: jsonType},
			[]byte(`{"metadata":{"name":"compare"}}`))
		for _, ns := range []string{"compare", "default"} {
			s.ask(ctx, trial{method: "POST", path: "/api/v1/namespaces/" + ns + "/serviceaccounts", content: jsonType},
				[]byte(`{"metadata":{"name":"default"}}`))
		}
	}
	if err := p.look(ctx); err != nil {
		return err
	}
	first := slices.DeleteFunc(slices.Clone(seeds), func(s map[string]any) bool {
		return word(s, "metadata", "labels", firstLabel) == ""
	})
	if len(first) == 0 {
		return nil
	}
	p.store(ctx, first)
	return p.look(ctx)
}

// firstLabel marks the seeds that are there before any question is asked: definitions, policies, quotas.
const firstLabel = "compare.example.com/first"

// look reads from the first server what there is to ask for.
func (p *plan) look(ctx context.Context) (err error) {
	if p.places, err = places(ctx, p.pair.a); err != nil {
		return err
	}
	p.schemas, err = schemas(ctx, p.pair.a)
	return err
}

// some chooses among the mutations, the same for the same name and seed, and adds pairs of them.
func (p *plan) some(name string, all []mutation) [][]mutation {
	h := fnv.New64a()
	h.Write([]byte(name))
	r := rand.New(rand.NewSource(int64(h.Sum64()) ^ p.seed))
	var list [][]mutation
	for _, i := range r.Perm(len(all))[:min(len(all), p.most)] {
		list = append(list, []mutation{all[i]})
	}
	for range min(len(list)/5, 40) {
		list = append(list, []mutation{all[r.Intn(len(all))], all[r.Intn(len(all))]})
	}
	for range min(len(list)/2, p.most/4) { // fields beside each other have more to do with each other
		one := all[r.Intn(len(all))]
		beside := slices.DeleteFunc(slices.Clone(all), func(m mutation) bool { return !one.beside(m) })
		if len(beside) > 0 {
			list = append(list, []mutation{one, beside[r.Intn(len(beside))]})
		}
	}
	return list
}

// creations are questions about objects that are not there yet.
func (p *plan) creations(seeds []map[string]any) []trial {
	var trials []trial
	for i, seed := range seeds {
		at, ok := placeOf(p.places, seed)
		if !ok || !at.can("create") || !p.wanted(at, "create") {
			continue
		}
		for j, change := range p.some(fmt.Sprint("create ", i), mutations(p.schemas[at.gvk], seed)) {
			t := trial{kind: at.gvk.Kind, verb: "create", method: "POST", content: jsonType}
			t.path = at.in(word(seed, "metadata", "namespace")) + "?dryRun=All&fieldManager=compare" + []string{"", "&fieldValidation=Strict"}[j%2]
			trials = append(trials, t.with(change, seed, seed))
		}
	}
	return trials
}

func (p *plan) wanted(at place, verb string) bool {
	return p.only.MatchString(at.gvk.Kind + "/" + verb)
}

// with says what a question is about and fills its bodies.
func (t trial) with(change []mutation, a, b any) trial {
	var fields, whats []string
	for _, m := range change {
		a, b = m.apply(a), m.apply(b)
		fields, whats = append(fields, m.field()), append(whats, m.what)
	}
	t.field, t.what = strings.Join(fields, "+"), strings.Join(whats, "+")
	t.bodyA, t.bodyB = encode(a), encode(b)
	return t
}

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // trees of JSON can be encoded
	}
	return data
}

// A stored seed lies on both servers, as each made it.
type stored struct {
	place place
	path  string
	a, b  map[string]any
}

// store makes the seeds on both servers.
func (p *plan) store(ctx context.Context, seeds []map[string]any) []stored {
	var all []stored
	for _, seed := range seeds {
		at, ok := placeOf(p.places, seed)
		if !ok || !at.can("create") || !at.can("get") {
			continue
		}
		s := stored{place: at, path: at.in(word(seed, "metadata", "namespace")) + "/" + url.PathEscape(word(seed, "metadata", "name"))}
		if slices.ContainsFunc(all, func(o stored) bool { return o.path == s.path }) {
			continue
		}
		s.a, s.b = keep(ctx, p.pair.a, at, s.path, seed), keep(ctx, p.pair.b, at, s.path, seed)
		if s.a != nil && s.b != nil {
			all = append(all, s)
		} else if s.a != nil || s.b != nil {
			log.Printf("seed %s is taken by one server alone", s.path)
		}
	}
	p.rest(ctx, all)
	return all
}

// rest reads the seeds again until the servers' own loops have done with them: changes name the revision that they are of.
func (p *plan) rest(ctx context.Context, all []stored) {
	for n, moved := 0, true; n < 20 && moved && ctx.Err() == nil; n++ {
		moved = false
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
		for i := range all {
			s := &all[i]
			a, _ := p.pair.a.ask(ctx, trial{method: "GET", path: s.path}, nil).body.(map[string]any)
			b, _ := p.pair.b.ask(ctx, trial{method: "GET", path: s.path}, nil).body.(map[string]any)
			moved = moved || !reflect.DeepEqual(a, s.a) || !reflect.DeepEqual(b, s.b)
			s.a, s.b = a, b
		}
	}
}

// keep creates an object and, if it has a status, writes that.
func keep(ctx context.Context, s *server, at place, path string, seed map[string]any) map[string]any {
	collection := path[:strings.LastIndexByte(path, '/')]
	made := s.ask(ctx, trial{method: "POST", path: collection, content: jsonType}, encode(seed))
	if made.code >= 300 && made.code != 409 {
		log.Printf("seed %s: %s: %.300s", s.url, path, made.text)
		return nil
	}
	if status := seed["status"]; status != nil {
		s.ask(ctx, trial{method: "PATCH", path: path + "/status", content: mergeType}, encode(map[string]any{"status": status}))
	}
	got, _ := s.ask(ctx, trial{method: "GET", path: path}, nil).body.(map[string]any)
	return got
}

// clear removes the seeds.
func (p *plan) clear(ctx context.Context, all []stored) {
	for _, s := range slices.Backward(all) {
		for _, on := range []*server{p.pair.a, p.pair.b} {
			on.ask(ctx, trial{method: "DELETE", path: s.path + "?gracePeriodSeconds=0"}, nil)
		}
	}
}
