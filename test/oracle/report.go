package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"
)

// newRunner connects to the server and, when profile full is wanted, puts the
// fixtures (nodes and the like) in place.
func newRunner(o options, c *Corpus) (*runner, []*Scenario, error) {
	cl, err := newClient(o.kubeconfig)
	if err != nil {
		return nil, nil, err
	}
	home, err := os.MkdirTemp("", "oracle-home-")
	if err != nil {
		return nil, nil, err
	}
	r := &runner{c: cl, o: o, vars: c.Vars, home: home}
	profile := o.profile
	if profile == "auto" {
		profile = "api"
		if r.hasControllers() {
			profile = "full"
		}
	}
	r.o.profile = profile
	var todo []*Scenario
	for _, s := range c.Scenarios {
		if profile == "all" || s.profile() == profile {
			todo = append(todo, s)
		}
	}
	if profile != "api" && len(c.Fixtures) > 0 {
		p := &player{runner: r, s: &Scenario{Name: "fixtures"}, vars: map[string]any{}, streams: map[string]*stream{}}
		for k, v := range c.Vars {
			p.vars[k] = v
		}
		for i, st := range c.Fixtures {
			if _, fail := p.step(i, st); fail != "" {
				return nil, nil, fmt.Errorf("fixtures: %s", fail)
			}
		}
	}
	return r, todo, nil
}

// hasControllers asks whether something makes a default service account in a
// new namespace, as a controller manager does first.
func (r *runner) hasControllers() bool {
	path := "/api/v1/namespaces/default/configmaps/kube-root-ca.crt"
	for range 20 {
		if resp, err := r.c.do(&Request{Path: path}); err == nil && resp.code == 200 {
			return true
		}
		time.Sleep(100 * time.Millisecond)
	}
	return false
}

// each plays the scenarios, the serial ones last and alone, and hands over
// each transcript.
func (r *runner) each(todo []*Scenario, parallel int, f func(*Scenario, map[string]any)) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	queue := make(chan *Scenario)
	play := func(s *Scenario) {
		start := time.Now()
		t := r.play(s)
		mu.Lock()
		if took := time.Since(start); r.o.slow > 0 && took > r.o.slow {
			fmt.Fprintf(os.Stderr, "slow %s %.1fs\n", s.ID(), took.Seconds())
		}
		f(s, t)
		mu.Unlock()
	}
	for range max(parallel, 1) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for s := range queue {
				play(s)
			}
		}()
	}
	for _, s := range todo {
		if !s.Serial {
			queue <- s
		}
	}
	close(queue)
	wg.Wait()
	for _, s := range todo {
		if s.Serial {
			play(s)
		}
	}
}

func record(o options, c *Corpus) int {
	r, todo, err := newRunner(o, c)
	if err != nil {
		fatal(err)
	}
	defer os.RemoveAll(r.home)
	done, aborted := 0, 0
	r.each(todo, o.parallel, func(s *Scenario, t map[string]any) {
		if why, bad := t["aborted"]; bad || strings.Contains(mustJSON(t["steps"]), `"error":"no answer"`) {
			aborted++
			fmt.Printf("ABORTED %s: %v\n", s.ID(), why)
			return
		}
		file := filepath.Join(o.recordings, s.ID()+".json")
		_ = os.MkdirAll(filepath.Dir(file), 0o755)
		b := pretty(t)
		if err := os.WriteFile(file, b, 0o644); err != nil {
			fatal(err)
		}
		done++
		if o.verbose {
			fmt.Println("recorded", s.ID())
		}
	})
	fmt.Printf("%d recorded, %d aborted\n", done, aborted)
	if aborted > 0 {
		return 1
	}
	return 0
}

func pretty(v any) []byte {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	_ = e.Encode(v)
	return []byte(b.String())
}

// result is the verdict on one scenario.
type result struct {
	Scenario    string       `json:"scenario"`
	Area        string       `json:"area"`
	Pass        bool         `json:"pass"`
	Differences []difference `json:"differences,omitempty"`
}

type difference struct {
	Path     string `json:"path"`
	Recorded string `json:"recorded"`
	Observed string `json:"observed"`
}

func check(o options, c *Corpus) int {
	r, todo, err := newRunner(o, c)
	if err != nil {
		fatal(err)
	}
	defer os.RemoveAll(r.home)
	var results []result
	r.each(todo, o.parallel, func(s *Scenario, t map[string]any) {
		res := result{Scenario: s.ID(), Area: s.Area}
		var want map[string]any
		b, err := os.ReadFile(filepath.Join(o.recordings, s.ID()+".json"))
		if err == nil {
			err = json.Unmarshal(b, &want)
		}
		if err != nil {
			res.Differences = []difference{{Path: "(recording)", Recorded: "missing"}}
		} else {
			compare("", want, t, &res.Differences)
		}
		res.Pass = len(res.Differences) == 0
		results = append(results, res)
		if !o.json {
			res.print(o.verbose)
		}
	})
	sort.Slice(results, func(i, j int) bool { return results[i].Scenario < results[j].Scenario })

	expected, err := readExpectations(o.expect, cmp.Or(o.place, r.o.profile))
	if err != nil {
		fatal(err)
	}
	failed := o.summarize(results)
	if o.expect == "" {
		return min(failed, 1)
	}
	complaints := judge(results, expected)
	for _, c := range complaints {
		fmt.Println("NOT AS EXPECTED", c)
	}
	return min(len(complaints), 1)
}

// summarize prints how many scenarios passed in each area, and returns how many failed.
func (o options) summarize(results []result) int {
	pass, total := map[string]int{}, map[string]int{}
	passed := 0
	for _, res := range results {
		total[res.Area]++
		if res.Pass {
			pass[res.Area]++
			passed++
		}
	}
	failed := len(results) - passed
	if o.json {
		areas := map[string]any{}
		for a := range total {
			areas[a] = map[string]int{"passed": pass[a], "failed": total[a] - pass[a]}
		}
		os.Stdout.Write(pretty(map[string]any{"passed": passed, "failed": failed, "areas": areas, "results": results}))
		return failed
	}
	fmt.Println()
	for _, a := range sortedKeys(total) {
		fmt.Printf("%-14s %4d / %d\n", a, pass[a], total[a])
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	return failed
}

// print writes one line about a failed scenario and, when verbose, all its differences.
func (res result) print(verbose bool) {
	if res.Pass {
		return
	}
	d := res.Differences[0]
	fmt.Printf("FAIL %s: %s: recorded %s, observed %s", res.Scenario, d.Path, clip(d.Recorded), clip(d.Observed))
	if more := len(res.Differences) - 1; more > 0 {
		fmt.Printf(" (and %d more)", more)
	}
	fmt.Println()
	if verbose {
		for _, d := range res.Differences {
			fmt.Printf("    %s\n      - %s\n      + %s\n", d.Path, d.Recorded, d.Observed)
		}
	}
}

func clip(s string) string {
	if len(s) > 160 {
		return s[:157] + "..."
	}
	return s
}

// compare lists where two JSON values differ.
func compare(path string, want, got any, out *[]difference) {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			break
		}
		keys := map[string]bool{}
		for k := range w {
			keys[k] = true
		}
		for k := range g {
			keys[k] = true
		}
		for _, k := range sortedKeys(keys) {
			p := path + "." + k
			if strings.ContainsAny(k, ".[]'") {
				p = path + "['" + k + "']"
			}
			wv, inW := w[k]
			gv, inG := g[k]
			switch {
			case !inG:
				*out = append(*out, difference{p, mustJSON(wv), "(absent)"})
			case !inW:
				*out = append(*out, difference{p, "(absent)", mustJSON(gv)})
			default:
				compare(p, wv, gv, out)
			}
		}
		return
	case []any:
		g, ok := got.([]any)
		if !ok {
			break
		}
		for i := range max(len(w), len(g)) {
			p := fmt.Sprintf("%s[%d]", path, i)
			switch {
			case i >= len(g):
				*out = append(*out, difference{p, mustJSON(w[i]), "(absent)"})
			case i >= len(w):
				*out = append(*out, difference{p, "(absent)", mustJSON(g[i])})
			default:
				compare(p, w[i], g[i], out)
			}
		}
		return
	}
	if a, b := mustJSON(want), mustJSON(got); a != b {
		*out = append(*out, difference{strings.TrimPrefix(path, "."), a, b})
	}
}
