package main

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// pollers are the loops of tests that wait for time to pass and poll for nothing, or can't do it by internal/eventually.
var pollers = map[string]string{
	"examples/files/main_test.go until":                      "an example of other people's code, which has no internal/eventually",
	"dns/keep_test.go begin":                                 "paces questions until the test ends",
	"examples/postgres/simulated/machines_test.go machines":  "plays machines until the test ends",
	"node/serve/log_test.go TestFollowWithoutInotify":        "writes to the file until that is seen",
	"test/e2e/apart_test.go startRest":                       "begins before any test, and approves until the node has joined",
	"test/e2e/servers/history_test.go load":                  "paces the load until the test ends",
	"test/e2e/servers/roll_test.go balance":                  "looks after backends, as a load balancer does, until the test ends",
	"test/e2e/servers/watch_test.go follow":                  "watches again, as a client does, until its context ends",
	"test/torture/full_linux_test.go TestDiskFillsUnderLoad": "fills the disk at a time by chance",
	"test/torture/kill_test.go torment":                      "kills at a time by chance",
	"test/torture/power_linux_test.go TestPowerCutAtFirst":   "cuts the power at a time by chance",
	"test/why/board_test.go TestWatch":                       "waits for events, and fails when none comes in time",
	"test/why/why_test.go again":                             "watches again, as a client does, until its context ends",
	"test/why/why_test.go drain":                             "asks for evictions, as a drain does, until the test ends",
}

// pauses are the calls by which a loop waits.
var pauses = map[string]bool{"Sleep": true, "After": true, "Tick": true, "NewTicker": true}

// TestPollers finds tests that poll by a loop of their own. Where a package has bubbles, its time is simulated and costs nothing.
func TestPollers(t *testing.T) {
	bubbles, used := map[string]bool{}, map[string]bool{}
	for _, s := range mustSources(t) {
		for _, imp := range s.file.Imports {
			if imp.Path.Value == `"testing/synctest"` {
				bubbles[filepath.Dir(s.path)] = true
			}
		}
	}
	for _, s := range mustSources(t) {
		if !s.test() || bubbles[filepath.Dir(s.path)] || strings.HasPrefix(s.path, "internal/eventually/") {
			continue
		}
		for _, d := range s.file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil || !polls(fn.Body) {
				continue
			}
			key := s.path + " " + fn.Name.Name
			if used[key] = true; pollers[key] == "" {
				t.Errorf("%s: %s polls by a loop of its own: use internal/eventually, or say in pollers why not", s.fset.Position(fn.Pos()), fn.Name)
			}
		}
	}
	for key := range pollers {
		if !used[key] {
			t.Errorf("the exception %q is not needed any more: delete it", key)
		}
	}
}

// polls says that a loop in the node pauses.
func polls(n ast.Node) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		var body *ast.BlockStmt
		switch n := n.(type) {
		case *ast.ForStmt:
			body = n.Body
		case *ast.RangeStmt:
			body = n.Body
		default:
			return true
		}
		ast.Inspect(body, func(n ast.Node) bool {
			if of, ok := n.(*ast.UnaryExpr); ok && of.Op == token.ARROW { // of a ticker
				sel, ok := of.X.(*ast.SelectorExpr)
				found = found || ok && sel.Sel.Name == "C"
			}
			if call, ok := n.(*ast.CallExpr); ok {
				sel, ok := call.Fun.(*ast.SelectorExpr)
				if pkg, is := selected(sel, ok); is && pkg == "time" && pauses[sel.Sel.Name] {
					found = true
				}
			}
			return true
		})
		return true
	})
	return found
}

// selected is the name before the dot.
func selected(sel *ast.SelectorExpr, ok bool) (string, bool) {
	if !ok {
		return "", false
	}
	x, is := sel.X.(*ast.Ident)
	if !is {
		return "", false
	}
	return x.Name, true
}
