// Command house prints the numbers of the code by which reviews of it begin: files, lines and functions by size, cyclomatic
// complexity, comments, documentation, the broadest receivers, the packages that most others import, and code that stands twice.
// scripts/house runs it.
package main

import (
	"cmp"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

func main() {
	log.SetFlags(0)
	h, err := read(".")
	if err != nil {
		log.Fatal(err)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "room\tpackages\tfiles\tlines\tfile med/max\tfunc med/p95/max\t>45\tcyc p95/max\tdocs\tcomments\ttests\t>100 cols")
	h.all().print(w, "all")
	rooms := slices.SortedFunc(maps.Keys(h.rooms), func(a, b string) int { return cmp.Compare(h.rooms[b].lines(), h.rooms[a].lines()) })
	for _, name := range rooms {
		h.rooms[name].print(w, name)
	}
	if err := w.Flush(); err != nil {
		log.Fatal(err)
	}
	top(os.Stdout, "methods of a type", h.methods, 10)
	top(os.Stdout, "packages of this module that import it", fanIn(h.imports), 10)
	top(os.Stdout, "packages of this module that it imports", fanOut(h.imports), 10)
	twice := map[string]int{}
	for at, n := range h.repeats.runs {
		twice[at] = n + window - 1
	}
	top(os.Stdout, fmt.Sprintf("lines of code that stand twice, %d or more in a row, tests with them: %d runs", window, len(twice)), twice, 10)
}

// print writes one row.
func (r *room) print(w io.Writer, name string) {
	slices.Sort(r.files)
	slices.Sort(r.funcs)
	slices.Sort(r.cyclomatic)
	long, _ := slices.BinarySearch(r.funcs, 46)
	fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d/%d\t%d/%d/%d\t%d\t%d/%d\t%s\t%s\t%.2f\t%s\n", name, len(r.packages), len(r.files), r.lines(),
		at(r.files, 50), at(r.files, 100), at(r.funcs, 50), at(r.funcs, 95), at(r.funcs, 100), len(r.funcs)-long,
		at(r.cyclomatic, 95), at(r.cyclomatic, 100), share(r.documented, r.exported), share(r.comments, r.lines()),
		float64(r.tests)/float64(max(1, r.lines())), share(r.wide, r.lines()))
}

// at is a percentile of a sorted list; 0 for an empty one.
func at(list []int, percent int) int {
	if len(list) == 0 {
		return 0
	}
	return list[min(len(list)-1, len(list)*percent/100)]
}

func share(part, whole int) string {
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(max(1, whole)))
}

func top(w io.Writer, title string, count map[string]int, n int) {
	names := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
	fmt.Fprintf(w, "\n%s\n", title)
	for _, name := range names[:min(n, len(names))] {
		fmt.Fprintf(w, "%6d  %s\n", count[name], name)
	}
}

func fanOut(imports map[string]map[string]bool) map[string]int {
	out := map[string]int{}
	for p, of := range imports {
		out[p] = len(of)
	}
	return out
}

func fanIn(imports map[string]map[string]bool) map[string]int {
	in := map[string]int{}
	for _, of := range imports {
		for p := range of {
			in[strings.TrimPrefix(p, module)]++
		}
	}
	return in
}
