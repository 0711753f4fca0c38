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

// long are the packages whose tests take a minute and more, longest first: they begin before all others, since whatever is left to itself
// at the end has one processor lie idle.
var long = []string{"test/why", "cluster", "machine", "test/simulation", "podnetwork", "cli", "examples/vsx", "test/ui", "proxy",
	"store/etcd", "test/rest", "node/volume", "server/httpapi"}

// clusters are packages raced whole whose tests run clusters and machines and wait for them most of the time: they take turns with the
// other clusters, so that both lanes end at about the same time.
var clusters = []string{"machine", "cluster", "podnetwork"}

// guests boots machines with systemd, interpreted, whose services have minutes to start: nothing runs beside it. See the step of that name.
const guests = "test/systemd"

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

// longFirst orders packages by how long their tests take.
func longFirst(list []goPackage) {
	rank := func(p goPackage) int {
		if at := slices.Index(long, short(p.ImportPath)); at >= 0 {
			return at
		}
		return len(long)
	}
	slices.SortStableFunc(list, func(x, y goPackage) int { return rank(x) - rank(y) })
}

// split says which packages with tests run once without the race detector, which run whole under it, and which in part: their tests
// ask testing.Short and do less then, since the detector makes them slow beyond use. These run whole without it besides.
func split(list []goPackage) (plain, whole, part []string, err error) {
	longFirst(list)
	for _, p := range list {
		if !p.tested() || short(p.ImportPath) == guests {
			continue
		}
		concurrent, err := p.startsGoroutines()
		if err != nil {
			return nil, nil, nil, err
		}
		short, err := p.asksShort()
		if err != nil {
			return nil, nil, nil, err
		}
		switch {
		case !concurrent:
			plain = append(plain, p.ImportPath)
		case short:
			plain, part = append(plain, p.ImportPath), append(part, p.ImportPath)
		default:
			whole = append(whole, p.ImportPath)
		}
	}
	return plain, whole, part, nil
}

// startsGoroutines says whether the race detector has something to see: go statements and calls like group.Go.
func (p goPackage) startsGoroutines() (bool, error) {
	if name := short(p.ImportPath); unraced[name] != "" || slices.Contains(raced, name) {
		return unraced[name] == "", nil
	}
	return p.has(p.GoFiles, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			return true
		case *ast.CallExpr:
			sel, ok := n.Fun.(*ast.SelectorExpr)
			return ok && sel.Sel.Name == "Go"
		}
		return false
	})
}

// asksShort looks for testing.Short in the tests.
func (p goPackage) asksShort() (bool, error) {
	return p.has(slices.Concat(p.TestGoFiles, p.XTestGoFiles), func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != "Short" {
			return false
		}
		x, ok := sel.X.(*ast.Ident)
		return ok && x.Name == "testing"
	})
}

// has says whether one of the files has such a node.
func (p goPackage) has(files []string, is func(ast.Node) bool) (found bool, err error) {
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return false, err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			found = found || is(n)
			return !found
		})
	}
	return found, nil
}

func (j *job) unitFast() error {
	paths, err := quick()
	if err != nil {
		return err
	}
	return j.tests([]string{"-short"}, paths...)
}

// unit runs what race does not, and whole what race runs but a part of.
func (j *job) unit() error {
	list, err := listPackages()
	if err != nil {
		return err
	}
	plain, _, _, err := split(list)
	if err != nil {
		return err
	}
	return j.tests(quiet, plain...)
}

// raceWhole runs every package that starts goroutines under the race detector, which the unit tests need not repeat, but for clusters.
func (j *job) raceWhole() error {
	return j.race(nil, func(whole, _ []string) []string { return slices.DeleteFunc(whole, isCluster) })
}

// raceClusters runs the others.
func (j *job) raceClusters() error {
	return j.race(nil, func(whole, _ []string) []string {
		return slices.DeleteFunc(whole, func(path string) bool { return !isCluster(path) })
	})
}

// racePart runs those under it that do less there. They are a step of their own, which clusters that have ended leave room for.
func (j *job) racePart() error {
	return j.race([]string{"-short"}, func(_, part []string) []string { return part })
}

func isCluster(path string) bool { return slices.Contains(clusters, short(path)) }

func (j *job) race(flags []string, choose func(whole, part []string) []string) error {
	list, err := listPackages()
	if err != nil {
		return err
	}
	_, whole, part, err := split(list)
	if err != nil {
		return err
	}
	return j.tests(slices.Concat(quiet, []string{"-race"}, flags), choose(whole, part)...)
}
