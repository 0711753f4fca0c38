package main

import (
	"go/ast"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// TestLinks finds links in pages that lead to files that are not there.
func TestLinks(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "bin" || d.Name() == ".git" || d.Name() == "testdata"):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".md"):
			checkLinks(t, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func checkLinks(t *testing.T, path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range link.FindAllStringSubmatch(string(text), -1) {
		target, _, _ := strings.Cut(m[1], "#")
		if target == "" || strings.Contains(target, "://") {
			continue
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), target)); err != nil {
			t.Errorf("%s: the link to %s leads nowhere", path, m[1])
		}
	}
}

var (
	fileEnd = regexp.MustCompile(`^(go|js|md|yaml)$`)
	goFile  = regexp.MustCompile(`[A-Za-z0-9_/*-]+\.go\b`)
	ofCode  = regexp.MustCompile("`([A-Za-z][A-Za-z0-9]*)\\.([A-Za-z][A-Za-z0-9]*)`")
)

// TestNamedFiles finds file names in comments and in pages for which there is no file. Upstream's files are named with their packages.
func TestNamedFiles(t *testing.T) {
	files := map[string]bool{}
	for _, s := range mustSources(t) {
		files[filepath.Base(s.path)] = true
	}
	named := func(where, text string) {
		for _, name := range goFile.FindAllString(text, -1) {
			if base := filepath.Base(name); !strings.Contains(base, "*") && !files[base] && !strings.HasPrefix(name, "pkg/") {
				t.Errorf("%s names %s, which there is not", where, name)
			}
		}
	}
	for _, s := range mustSources(t) {
		for _, group := range s.file.Comments {
			if s.path != "links_test.go" {
				named(s.fset.Position(group.Pos()).String(), group.Text())
			}
		}
	}
	for _, page := range codePages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		named(page, string(text))
	}
}

// codePages say where in the code something is; the first three name code too, not only files.
var codePages = []string{"ARCHITECTURE.md", "CONTRIBUTING.md", "docs/glossary.md", "docs/differences.md", "docs/adr/0004-one-module.md"}

// TestNamedCode finds names of code in those pages, such as loop.Now and Kind.SetDefaults, that nothing declares.
func TestNamedCode(t *testing.T) {
	owners, declared := map[string]bool{}, map[string]bool{}
	note := func(owner, name string) { owners[owner], declared[owner+"."+name] = true, true }
	for _, s := range mustSources(t) {
		for _, d := range s.file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
				note(receiver(fn.Recv.List[0].Type), fn.Name.Name)
			} else if ok {
				note(s.file.Name.Name, fn.Name.Name)
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for _, name := range n.Names {
					note(s.file.Name.Name, name.Name)
				}
			case *ast.TypeSpec:
				note(s.file.Name.Name, n.Name.Name)
				for _, name := range members(n.Type) {
					note(n.Name.Name, name)
				}
			}
			return true
		})
	}
	for _, page := range codePages[:3] {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range ofCode.FindAllStringSubmatch(string(text), -1) {
			if owners[m[1]] && !declared[m[1]+"."+m[2]] && !fileEnd.MatchString(m[2]) {
				t.Errorf("%s names %s.%s, which there is not", page, m[1], m[2])
			}
		}
	}
}

// members are the fields and methods that a type is declared with.
func members(x ast.Expr) (list []string) {
	var fields *ast.FieldList
	switch x := x.(type) {
	case *ast.StructType:
		fields = x.Fields
	case *ast.InterfaceType:
		fields = x.Methods
	default:
		return nil
	}
	for _, f := range fields.List {
		for _, name := range f.Names {
			list = append(list, name.Name)
		}
		if sel, ok := f.Type.(*ast.SelectorExpr); ok && len(f.Names) == 0 {
			list = append(list, sel.Sel.Name)
		}
	}
	return list
}
