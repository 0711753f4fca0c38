package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// Limits stand at what the code keeps. They turn only down.
const (
	maxFile  = 480 // lines of a file that is not a test
	maxFunc  = 60  // lines of a function
	maxWidth = 140 // characters of a line
)

// tall are the functions that may be longer than maxFunc.
var tall = map[string]string{
	"test/oracle/client.go newClient": "as it recorded upstream; not worth a risk to the recordings",
	"test/oracle/client.go open":      "as it recorded upstream",
	"test/oracle/record.go finish":    "as it recorded upstream",
	"test/oracle/record.go keep":      "as it recorded upstream",
	"test/oracle/stream.go kubectl":   "as it recorded upstream",
}

// banned are the lines that no file has.
var banned = []struct {
	name  string
	tests bool // in tests too
	bad   func(line string) bool
	hint  string
}{
	{"is wider than 140 characters", true, wide, "wrap it"},
	{"has a comment of the form \"X is who\" or \"is told of\"", false, dialect.MatchString, "say it in plain words"},
}

func wide(line string) bool { return utf8.RuneCountInString(line) > maxWidth }

var dialect = regexp.MustCompile(`//.*(\b(is|are) (who|what|when|where|how)\b|\b(is|are) told\b|\bfor who\b)`)

// A source is a Go file of this repository that is written by hand, nested modules included.
type source struct {
	path string
	text string
	file *ast.File
	fset *token.FileSet
}

func (s source) line(p token.Pos) int { return s.fset.Position(p).Line }
func (s source) test() bool           { return strings.HasSuffix(s.path, "_test.go") }

// sources reads the repository, once for all tests.
var sources = sync.OnceValues(func() (list []source, err error) {
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == "testdata" || name == "bin" || strings.HasPrefix(name, ".") && name != "."):
			return filepath.SkipDir
		case !d.IsDir() && strings.HasSuffix(name, ".go"):
			s, err := parse(path)
			if err != nil || ast.IsGenerated(s.file) || strings.HasPrefix(s.text, "//go:build ignore") {
				return err
			}
			list = append(list, s)
		}
		return nil
	})
	return list, err
})

func parse(path string) (source, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return source{}, err
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, text, parser.ParseComments)
	return source{path, string(text), f, fset}, err
}

func mustSources(t *testing.T) []source {
	t.Helper()
	list, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestLimits keeps files and functions small enough to be seen at once.
func TestLimits(t *testing.T) {
	for _, s := range mustSources(t) {
		if n := s.line(s.file.FileEnd); n > maxFile && !s.test() {
			t.Errorf("%s: %d lines, more than %d; split it", s.path, n, maxFile)
		}
		for _, d := range s.file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			switch {
			case !ok:
			case fn.Name.Name == "init" && fn.Recv == nil:
				t.Errorf("%s: init runs before anyone asked", s.fset.Position(fn.Pos()))
			case s.line(fn.End())-s.line(fn.Pos()) > maxFunc && !s.test() && tall[s.path+" "+fn.Name.Name] == "":
				t.Errorf("%s: %s has more than %d lines; split it", s.fset.Position(fn.Pos()), fn.Name, maxFunc)
			}
		}
	}
}

// TestLines keeps out what banned has.
func TestLines(t *testing.T) {
	for _, s := range mustSources(t) {
		for i, line := range strings.Split(s.text, "\n") {
			for _, b := range banned {
				if (b.tests || !s.test()) && b.bad(line) {
					t.Errorf("%s:%d %s: %s", s.path, i+1, b.name, b.hint)
				}
			}
		}
	}
}

// TestDocumented has a comment for everything that another package can name. Methods of types that none can name need none: what they
// do is said by the interface that they are for.
func TestDocumented(t *testing.T) {
	for _, s := range mustSources(t) {
		if s.test() || s.file.Name.Name == "main" {
			continue
		}
		for _, name := range undocumented(s.file) {
			t.Errorf("%s: %s has no comment", s.fset.Position(name.Pos()), name.Name)
		}
	}
}

func undocumented(f *ast.File) (list []*ast.Ident) {
	note := func(doc bool, names ...*ast.Ident) {
		for _, name := range names {
			if name.IsExported() && !doc {
				list = append(list, name)
			}
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			note(d.Doc != nil || d.Recv != nil && !ast.IsExported(receiver(d.Recv.List[0].Type)), d.Name)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					note(s.Doc != nil || d.Doc != nil, s.Name)
				case *ast.ValueSpec:
					note(s.Doc != nil || s.Comment != nil || d.Doc != nil, s.Names...)
				}
			}
		}
	}
	return list
}

var apiPackage = regexp.MustCompile(
	`^k8s\.io/(?:api|apiextensions-apiserver/pkg/apis|kube-aggregator/pkg/apis|metrics/pkg/apis|apimachinery/pkg/apis)/([a-z]+)/(v[0-9a-z]+)$`)

// TestAliases gives a package of the API one name in every file: its group and version, such as corev1. Any other package has its own
// name or, where that is taken, one other.
func TestAliases(t *testing.T) {
	other := map[string]string{}
	for _, s := range mustSources(t) {
		for _, imp := range s.file.Imports {
			path, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			m := apiPackage.FindStringSubmatch(path)
			if m != nil && (imp.Name == nil || imp.Name.Name != m[1]+m[2]) {
				t.Errorf("%s: import %s as %s", s.fset.Position(imp.Pos()), path, m[1]+m[2])
			}
			if imp.Name == nil || imp.Name.Name == "_" {
				continue
			}
			if was := other[path]; was != "" && was != imp.Name.Name {
				t.Errorf("%s: import %s as %s, as elsewhere", s.fset.Position(imp.Pos()), path, was)
			}
			other[path] = imp.Name.Name
		}
	}
}

// TestImports keeps imports in three groups: the standard library, other modules, this one. Imports for their effect alone may stand apart.
func TestImports(t *testing.T) {
	for _, s := range mustSources(t) {
		last, line := 0, 0
		for _, imp := range s.file.Imports {
			path, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			group, at := importGroup(path), s.line(imp.Pos())
			switch apart := line != 0 && at != line+1; {
			case imp.Name != nil && imp.Name.Name == "_":
			case group < last, group > last && line != 0 && !apart, group == last && apart:
				t.Errorf("%s: import %s stands in the wrong group", s.fset.Position(imp.Pos()), path)
			}
			last, line = group, at
		}
	}
}

// importGroup is 0 for the standard library, 1 for other modules, 2 for this one.
func importGroup(path string) int {
	head, _, _ := strings.Cut(path, "/")
	switch {
	case strings.HasPrefix(path, module):
		return 2
	case strings.Contains(head, "."):
		return 1
	}
	return 0
}
