package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
)

const mostExamples = 3

// A report counts answers that differ, by kind, field and difference.
type report struct {
	texts bool
	each  *bufio.Writer // every one of them, if not nil

	mu     sync.Mutex
	asked  int
	taken  int // by the first server
	differ int
	groups map[group]*found
}

type group struct{ kind, difference string }

// found says where a difference was.
type found struct {
	count  int
	fields map[string]int
}

func (r *report) add(t trial, a, b answer) {
	all := differences(a, b, r.texts)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	if a.code < 300 {
		r.taken++
	}
	if len(all) == 0 {
		return
	}
	r.count(t, t.field+" ("+t.what+")", all)
	if r.each != nil {
		fmt.Fprintf(r.each, "%s/%s %s (%s)\n  %s %s\n  %.2000s\n  %s\n", t.kind, t.verb, t.field, t.what, t.method, t.path, t.bodyA,
			strings.Join(all, "\n  "))
		for i, one := range []answer{a, b} {
			fmt.Fprintf(r.each, "  %c %d %v %.3000s\n", 'A'+i, one.code, one.warnings, strings.TrimSpace(one.text))
		}
		fmt.Fprintln(r.each)
	}
}

// count notes what is different, and where.
func (r *report) count(t trial, where string, all []string) {
	r.differ++
	if r.groups == nil {
		r.groups = map[group]*found{}
	}
	for _, d := range all {
		g := group{t.kind + "/" + t.verb, d}
		if r.groups[g] == nil {
			r.groups[g] = &found{fields: map[string]int{}}
		}
		r.groups[g].count++
		r.groups[g].fields[where]++
	}
}

// scene counts what a course came to.
func (r *report) scene(t trial, all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	if len(all) == 0 {
		return
	}
	shapes := make([]string, len(all))
	for i, d := range all {
		shapes[i] = template(d)
	}
	r.count(t, t.field, shapes)
	if r.each != nil {
		fmt.Fprintf(r.each, "%s\n  %s\n   %s\n\n", t.path, t.bodyA, strings.Join(all, "\n   "))
		r.each.Flush()
	}
}

// print writes the differences, those that matter most first, and of these those that are found most often; then how many there are of
// each sort.
func (r *report) print(w io.Writer) {
	keys := slices.SortedFunc(maps.Keys(r.groups), func(a, b group) int {
		return cmp.Or(cmp.Compare(rank(a.difference), rank(b.difference)), cmp.Compare(r.groups[b].count, r.groups[a].count),
			cmp.Compare(a.kind, b.kind), cmp.Compare(a.difference, b.difference))
	})
	counts := make([]int, len(ranks))
	for _, g := range keys {
		f := r.groups[g]
		counts[rank(g.difference)] += f.count
		fields := slices.Sorted(maps.Keys(f.fields))
		more := ""
		if n := len(fields) - mostExamples; n > 0 {
			fields, more = fields[:mostExamples], fmt.Sprintf(" and %d more", n)
		}
		fmt.Fprintf(w, "%5d %s: %s\n      at %s%s\n", f.count, g.kind, g.difference, strings.Join(fields, ", "), more)
	}
	for i, n := range counts {
		if n > 0 {
			fmt.Fprintf(w, "%5d differences of %s\n", n, ranks[i].name)
		}
	}
}
