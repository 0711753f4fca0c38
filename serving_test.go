package main

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// TestChecksStandBehindServing: what checks an object that a client writes is of no use to a program that only reads, and a check that is
// named in a Def is linked into it with all that it calls, unless resource.Serving leaves it out.
func TestChecksStandBehindServing(t *testing.T) {
	checks := []string{"Validate", "ValidateStatus", "Warn"}
	found := 0
	for _, s := range mustSources(t) {
		if s.test() || !strings.HasPrefix(s.path, "kinds/") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			kv, ok := n.(*ast.KeyValueExpr)
			if !ok {
				return true
			}
			key, ok := kv.Key.(*ast.Ident)
			if !ok || !slices.Contains(checks, key.Name) {
				return true
			}
			found++
			if given, ok := kv.Value.(*ast.Ident); ok && given.Obj != nil && given.Obj.Kind == ast.Var { // a parameter: its giver decides
				return true
			}
			if !callsServing(kv.Value) {
				t.Errorf("%s: write %s: resource.Serving(…)", s.fset.Position(kv.Pos()), key.Name)
			}
			return true
		})
	}
	if found < 60 {
		t.Errorf("only %d checks found in kinds: this test looks for the wrong names", found)
	}
}

func callsServing(x ast.Expr) bool {
	call, ok := x.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "Serving"
}
