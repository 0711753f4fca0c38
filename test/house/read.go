package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

const module = "github.com/kloop-dev/kloop/"

// A house holds the counts.
type house struct {
	rooms   map[string]*room
	methods map[string]int             // by package and type
	imports map[string]map[string]bool // of this module, by package
	repeats repeats
}

// A room is a folder at the top, or all of them. Generated files and testdata do not count.
type room struct {
	packages             map[string]bool
	files                []int // lines of each; tests apart
	funcs, cyclomatic    []int // lines and branches + 1 of each
	exported, documented int   // names at the top level
	comments, wide       int   // lines
	tests                int   // lines
}

func (r *room) lines() (n int) {
	for _, l := range r.files {
		n += l
	}
	return n
}

func (h *house) all() *room {
	sum := &room{packages: map[string]bool{}}
	for _, r := range h.rooms {
		for p := range r.packages {
			sum.packages[p] = true
		}
		sum.files, sum.funcs, sum.cyclomatic = append(sum.files, r.files...), append(sum.funcs, r.funcs...),
			append(sum.cyclomatic, r.cyclomatic...)
		sum.exported, sum.documented = sum.exported+r.exported, sum.documented+r.documented
		sum.comments, sum.wide, sum.tests = sum.comments+r.comments, sum.wide+r.wide, sum.tests+r.tests
	}
	return sum
}

func read(root string) (*house, error) {
	h := &house{rooms: map[string]*room{}, methods: map[string]int{}, imports: map[string]map[string]bool{},
		repeats: repeats{seen: map[string]twin{}, runs: map[string]int{}}}
	return h, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == "testdata" || name == "bin" || strings.HasPrefix(name, ".") && name != "."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil || ast.IsGenerated(f) {
			return err
		}
		h.count(filepath.ToSlash(path), string(text), fset, f)
		h.repeats.add(filepath.ToSlash(path), string(text), fset, f)
		return nil
	})
}

// count adds a file.
func (h *house) count(path, text string, fset *token.FileSet, f *ast.File) {
	pkg := filepath.Dir(path)
	name, _, _ := strings.Cut(pkg, "/")
	r := h.rooms[name]
	if r == nil {
		r = &room{packages: map[string]bool{}}
		h.rooms[name] = r
	}
	lines := fset.Position(f.FileEnd).Line
	if strings.HasSuffix(path, "_test.go") {
		r.tests += lines
		return
	}
	r.packages[pkg], r.files = true, append(r.files, lines)
	for line := range strings.Lines(text) {
		if utf8.RuneCountInString(line) > 101 { // with its end
			r.wide++
		}
	}
	for _, c := range f.Comments {
		r.comments += fset.Position(c.End()).Line - fset.Position(c.Pos()).Line + 1
	}
	for _, i := range f.Imports {
		if p := strings.Trim(i.Path.Value, `"`); strings.HasPrefix(p, module) {
			if h.imports[pkg] == nil {
				h.imports[pkg] = map[string]bool{}
			}
			h.imports[pkg][p] = true
		}
	}
	for _, d := range f.Decls {
		h.declared(r, pkg, fset, d)
	}
}

func (h *house) declared(r *room, pkg string, fset *token.FileSet, d ast.Decl) {
	note := func(name *ast.Ident, doc bool) {
		if name.IsExported() {
			r.exported++
			if doc {
				r.documented++
			}
		}
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil || ast.IsExported(receiver(d.Recv.List[0].Type)) {
			note(d.Name, d.Doc != nil)
		}
		if d.Recv != nil {
			h.methods[pkg+"."+receiver(d.Recv.List[0].Type)]++
		}
		r.funcs = append(r.funcs, fset.Position(d.End()).Line-fset.Position(d.Pos()).Line+1)
		r.cyclomatic = append(r.cyclomatic, branches(d)+1)
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				note(s.Name, s.Doc != nil || d.Doc != nil)
			case *ast.ValueSpec:
				for _, n := range s.Names {
					note(n, s.Doc != nil || s.Comment != nil || d.Doc != nil)
				}
			}
		}
	}
}

func receiver(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return "?"
}

// branches counts what makes another way through a function.
func branches(n ast.Node) (count int) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			count++
		case *ast.CaseClause:
			if n.List != nil {
				count++
			}
		case *ast.CommClause:
			if n.Comm != nil {
				count++
			}
		case *ast.BinaryExpr:
			if n.Op == token.LAND || n.Op == token.LOR {
				count++
			}
		}
		return true
	})
	return count
}
