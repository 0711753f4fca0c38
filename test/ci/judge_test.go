package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// checkers are the libraries by which tests judge histories and properties.
var checkers = []string{"porcupine", "rapid"}

// TestJudges finds tests that judge a history or a property and would be tried again all the same.
func TestJudges(t *testing.T) {
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "bin" || d.Name() == ".git"):
			return filepath.SkipDir
		case strings.HasSuffix(path, "_test.go"):
			return checkJudge(t, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func checkJudge(t *testing.T, path string) error {
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil || !importsChecker(f) {
		return err
	}
	dir, err := filepath.Rel("../..", filepath.Dir(path))
	if err != nil {
		return err
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") && !judges(module+"/"+dir, fn.Name.Name) && !marked(fn) {
			t.Errorf("%s: %s judges by %v: say t.Attr(\"retry\", \"never\")", path, fn.Name.Name, checkers)
		}
	}
	return nil
}

func importsChecker(f *ast.File) bool {
	for _, imp := range f.Imports {
		for _, name := range checkers {
			if strings.Contains(imp.Path.Value, "/"+name) {
				return true
			}
		}
	}
	return false
}

// marked says whether the first statement of a test is a call of Attr.
func marked(fn *ast.FuncDecl) bool {
	if len(fn.Body.List) == 0 {
		return false
	}
	stmt, ok := fn.Body.List[0].(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := stmt.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "Attr"
}
