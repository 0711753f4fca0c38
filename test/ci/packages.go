package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// slow are the folders whose tests are not for every minute. They run in the whole check.
var slow = []string{"test/", "store/etcd", "cmd"}

// raced start no goroutines themselves, and their tests have many.
var raced = []string{"store/memory", "controllers"}

// unraced are packages with goroutines whose tests tell the race detector nothing.
var unraced = map[string]string{
	"test/simulation": "its goroutines take turns by a scheduler of the test's own, which the detector takes for races",
	"test/bench":      "measures",
	"test/scale":      "measures",
}

type goPackage struct {
	ImportPath, Dir                    string
	GoFiles, TestGoFiles, XTestGoFiles []string
}

func listPackages() (list []goPackage, err error) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,TestGoFiles,XTestGoFiles", "./...").Output()
	if err != nil {
		return nil, err
	}
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p goPackage
		if err := dec.Decode(&p); err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

func (p goPackage) tested() bool { return len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 }

// quick returns the packages with tests that are not slow.
func quick() (paths []string, err error) {
	list, err := listPackages()
	for _, p := range list {
		if p.tested() && !slices.ContainsFunc(slow, func(dir string) bool { return strings.HasPrefix(short(p.ImportPath), dir) }) {
			paths = append(paths, p.ImportPath)
		}
	}
	return paths, err
}

// concurrent returns the packages with tests that start goroutines themselves.
func concurrent() (paths []string, err error) {
	list, err := listPackages()
	if err != nil {
		return nil, err
	}
	for _, p := range list {
		if !p.tested() || unraced[short(p.ImportPath)] != "" {
			continue
		}
		starts, err := p.startsGoroutines()
		if err != nil {
			return nil, err
		}
		if starts || slices.Contains(raced, short(p.ImportPath)) {
			paths = append(paths, p.ImportPath)
		}
	}
	return paths, nil
}

// startsGoroutines looks for go statements and for calls like group.Go.
func (p goPackage) startsGoroutines() (found bool, err error) {
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return false, err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				found = true
			case *ast.CallExpr:
				sel, ok := n.Fun.(*ast.SelectorExpr)
				found = found || ok && sel.Sel.Name == "Go"
			}
			return !found
		})
	}
	return found, nil
}

func (s *session) unitFast() error {
	paths, err := quick()
	if err != nil {
		return err
	}
	return s.tests([]string{"-short"}, paths...)
}

// race runs every package that starts goroutines under the race detector.
func (s *session) race() error {
	paths, err := concurrent()
	if err != nil {
		return err
	}
	return s.tests(append(slices.Clip(quiet), "-race", "-short"), paths...)
}
