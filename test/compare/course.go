package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"log"
	"maps"
	"math/rand"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/yaml"
)

// A course changes some objects step by step on clusters with loops, a scheduler and the nodes that an actor plays. In all texts
// $ns stands for the namespace of the course, and $pod0 for the name of the first of its pods, by age and name.
type course struct {
	Name    string
	Begin   []step           // done at once, before anything is compared
	Vary    [][]step         // one of each is done then
	Actions []step           // of these some by chance, each compared before the next
	Also    []string         // paths of objects outside the namespace that are compared, too
	Apart   []string         // regular expressions of differences that are known, and not looked at
	Words   map[string][]any // of a talk: one of each, by chance, in every step, where its texts have %WORD%
}

// A step is one request, or WAIT and a duration, or MEASURE with the values of metrics (see meter). A patch without a content type is a
// merge patch.
type step struct {
	Do      string // METHOD PATH
	Body    any
	Content string
	Accept  string
	As      map[string]string // headers
}

// A played course is one of those that a course can become by chance.
type played struct {
	course
	ns    string
	begin []step
	steps []step
}

func readCourses(file string) ([]course, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []course
	return all, yaml.UnmarshalStrict(data, &all)
}

// draw makes n courses of one, the same for the same seed.
func (c course) draw(n, length int, seed int64) []played {
	h := fnv.New64a()
	h.Write([]byte(c.Name))
	r := rand.New(rand.NewSource(int64(h.Sum64()) ^ seed))
	all := make([]played, n)
	for i := range all {
		p := played{course: c, ns: fmt.Sprintf("%s-%d-%d", c.Name, seed, i), begin: slices.Clone(c.Begin)}
		for _, choice := range c.Vary {
			p.begin = append(p.begin, choice[r.Intn(len(choice))])
		}
		for range min(length, len(c.Actions)*2) {
			p.steps = append(p.steps, c.Actions[r.Intn(len(c.Actions))])
		}
		p.begin, p.steps = c.filled(p.begin, r), c.filled(p.steps, r)
		all[i] = p
	}
	return all
}

// playAll plays the courses on both servers and reports where they come to rest otherwise.
func playAll(ctx context.Context, p *pair, c config, only *regexp.Regexp, r *report) error {
	list, err := readCourses(c.courses)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(one course) bool { return !only.MatchString(one.Name) })
	kinds, err := watched(ctx, p.a)
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	defer all.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for _, s := range []*server{p.a, p.b} {
		a := &actor{server: s}
		if err := a.nodes(ctx); err != nil {
			return err
		}
		all.Go(func() { a.play(ctx) })
	}
	var meters []*meter
	for _, s := range []*server{p.a, p.b} {
		if c.meter == "" {
			break
		}
		m, err := newMeter(ctx, s, c.meter)
		if err != nil {
			return err
		}
		defer m.stop(context.WithoutCancel(ctx))
		meters = append(meters, m)
	}
	work := make(chan played)
	var stages sync.WaitGroup
	for range c.workers {
		stages.Go(func() {
			for one := range work {
				(&stage{pair: p, kinds: kinds, played: one, report: r, known: map[string]bool{}, meters: meters}).play(ctx)
			}
		})
	}
	drawn := make([][]played, len(list))
	for i, one := range list {
		drawn[i] = one.draw(c.most, c.length, c.seed)
	}
	for round := range c.most { // each sort once, then each again
		for i := range list {
			select {
			case work <- drawn[i][round]:
			case <-ctx.Done():
			}
		}
	}
	close(work)
	stages.Wait()
	return ctx.Err()
}

// A stage plays one course on both servers at once.
type stage struct {
	pair   *pair
	kinds  []place
	report *report
	known  map[string]bool // differences that were reported: they last
	meters []*meter        // one for each server, or none
	played
}

const (
	still   = 1500 * time.Millisecond // what has not changed for so long may be at rest
	patient = 30 * time.Second        // for both to come to the same
	soon    = 5 * time.Second         // for the last events
)

func (s *stage) play(ctx context.Context) {
	made := encode(map[string]any{"metadata": map[string]any{"name": s.ns}})
	for _, on := range []*server{s.pair.a, s.pair.b} {
		if got := on.ask(ctx, trial{method: "POST", path: "/api/v1/namespaces", content: jsonType}, made); got.code >= 300 {
			log.Printf("course %s: %s", s.ns, gist(got))
			return
		}
		defer s.clear(context.WithoutCancel(ctx), on)
	}
	s.rest(ctx) // the namespace's own service account
	var told []string
	for _, one := range s.begin {
		told = append(told, one.Do)
		s.do(ctx, one, told)
	}
	s.compare(ctx, told)
	for i := 0; i < len(s.steps) && ctx.Err() == nil; i++ {
		told = append(told, s.steps[i].String())
		s.do(ctx, s.steps[i], told)
		s.compare(ctx, told)
	}
}

// clear removes what a course leaves.
func (s *stage) clear(ctx context.Context, on *server) {
	for _, path := range append(s.Also, "/api/v1/namespaces/"+s.ns) {
		if path = strings.ReplaceAll(path, "$ns", s.ns); strings.HasSuffix(path, s.ns) {
			on.ask(ctx, trial{method: "DELETE", path: path}, nil)
		}
	}
}

func (s step) String() string { return fmt.Sprintf("%s %.200s", s.Do, encode(s.Body)) }

// do puts one step to both servers, and reports if they do not answer alike.
func (s *stage) do(ctx context.Context, one step, told []string) {
	if wait, ok := strings.CutPrefix(one.Do, "WAIT "); ok {
		rest, err := time.ParseDuration(wait)
		if err != nil {
			log.Printf("course %s: %v", s.ns, err)
		}
		pause(ctx, rest)
		return
	}
	if one.Do == "MEASURE" {
		if err := measured(s.meters, s.ns, one.Body); err != nil {
			log.Printf("course %s: %v", s.ns, err)
		}
		return
	}
	if a, b := s.send(ctx, s.pair.a, one), s.send(ctx, s.pair.b, one); a.code != b.code {
		s.report.add(s.about(told), a, b)
	}
}

func (s *stage) about(told []string) trial {
	return trial{kind: s.Name, verb: "course", field: told[len(told)-1], what: fmt.Sprint(len(told)), path: s.ns,
		bodyA: []byte(strings.Join(told, "\n  "))}
}

func (s *stage) send(ctx context.Context, on *server, one step) answer {
	fill := []string{"$ns", s.ns}
	if strings.Contains(one.Do, "$pod") {
		for i, name := range s.pods(ctx, on) {
			fill = append(fill, fmt.Sprint("$pod", i), url.PathEscape(name))
		}
	}
	names := strings.NewReplacer(fill...)
	method, path, _ := strings.Cut(names.Replace(one.Do), " ")
	t := trial{method: method, path: path, content: one.Content}
	switch {
	case t.content != "":
	case method == "PATCH":
		t.content = mergeType
	case method == "POST" || method == "PUT":
		t.content = jsonType
	}
	var body []byte
	if one.Body != nil {
		body = []byte(names.Replace(string(encode(one.Body))))
	}
	return on.ask(ctx, t, body)
}

// pods returns the names of the pods, in an order that is the same on both servers as far as that can be.
func (s *stage) pods(ctx context.Context, on *server) []string {
	type pod struct{ key, name string }
	var all []pod
	for _, obj := range on.list(ctx, "/api/v1/namespaces/"+s.ns+"/pods") {
		meta, _ := obj["metadata"].(map[string]any)
		key := word(obj, "metadata", "generateName") + word(obj, "status", "phase")
		if key == "" || meta["deletionTimestamp"] != nil {
			key = "~" + key
		}
		all = append(all, pod{key + word(obj, "metadata", "creationTimestamp"), word(obj, "metadata", "name")})
	}
	slices.SortFunc(all, func(a, b pod) int { return strings.Compare(a.key+a.name, b.key+b.name) })
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].name
	}
	return names
}

// fresh leaves out the differences that the course knows of, and those that it has seen.
func (s *stage) fresh(all []string) []string {
	return slices.DeleteFunc(all, func(d string) bool {
		return s.known[template(d)] || slices.ContainsFunc(s.Apart, func(known string) bool { return regexp.MustCompile(known).MatchString(d) })
	})
}

// compare waits until both servers show the same, but for what was known, or one can't wait any longer.
func (s *stage) compare(ctx context.Context, told []string) {
	end := time.Now().Add(patient)
	for {
		a, b := s.rest(ctx)
		var all, events []string
		for _, kind := range slices.Sorted(maps.Keys(merged(a, b))) {
			if kind == "events" {
				scenes(a[kind], b[kind], kind, &events)
			} else {
				scenes(a[kind], b[kind], kind, &all)
			}
		}
		if ctx.Err() != nil {
			return
		}
		all, events = s.fresh(all), s.fresh(events)
		if len(all) == 0 && len(events) == 0 || time.Now().After(end) {
			all = append(all, events...)
			s.report.scene(s.about(told), all)
			for _, d := range all {
				s.known[template(d)] = true
			}
			return
		}
		if len(all) == 0 && time.Until(end) > soon {
			end = time.Now().Add(soon)
		}
	}
}

func merged(a, b map[string][]any) map[string][]any {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// rest waits until nothing changes on either server for a moment, and returns what is there then by kind.
func (s *stage) rest(ctx context.Context) (a, b map[string][]any) {
	var before string
	for since := time.Now(); ctx.Err() == nil && time.Since(since) < patient; {
		a, b = s.look(ctx, s.pair.a), s.look(ctx, s.pair.b)
		now := string(encode(a)) + string(encode(b))
		if now == before {
			break
		}
		before = now
		pause(ctx, still)
	}
	return a, b
}
