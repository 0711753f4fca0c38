package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"
)

// A twin is a window of code of one file: so many lines that have something to say, in a row.
type twin struct {
	path string
	line int
}

const window = 8

// A repeats finds code that stands twice.
type repeats struct {
	seen map[string]twin // the first place of a window
	runs map[string]int  // windows in a row, by the two files and the places where they begin
	last twin            // where the window before was seen
	at   string          // the run that it belongs to
}

// add takes a file's functions: lines without comments, and none that are brackets alone.
func (r *repeats) add(path, text string, fset *token.FileSet, f *ast.File) {
	all := strings.Split(text, "\n")
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		var code []string
		var from []int
		for n := fset.Position(fn.Pos()).Line; n <= fset.Position(fn.End()).Line; n++ {
			line, _, _ := strings.Cut(strings.TrimSpace(all[n-1]), " // ")
			if !strings.HasPrefix(line, "//") && strings.Trim(line, "{}()[], ") != "" {
				code, from = append(code, line), append(from, n)
			}
		}
		r.last = twin{}
		for i := 0; i+window <= len(code); i++ {
			r.window(strings.Join(code[i:i+window], "\n"), twin{path, from[i]})
		}
	}
}

// window counts a window that was seen before, with those next to it as one run.
func (r *repeats) window(code string, here twin) {
	was, again := r.seen[code]
	if !again {
		r.seen[code], r.last = here, twin{}
		return
	}
	if r.last.path != was.path || was.line <= r.last.line {
		r.at = fmt.Sprintf("%s:%d ~ %s:%d", was.path, was.line, here.path, here.line)
	}
	r.runs[r.at]++
	r.last = was
}
