package main

import (
	"go/ast"
	"go/types"
	"strings"
	"testing"
)

// maxNameless bounds the loops over tables in tests whose rows nobody can tell apart. It turns only down.
const maxNameless = 0

// TestNames wants a name for each row of a table: t.Run with it, or a field of the row in every message. A test that is bound to its
// thread's namespace, or a bubble of simulated time, can't have subtests and names its rows in messages.
func TestNames(t *testing.T) {
	var nameless []string
	for _, s := range mustSources(t) {
		if !s.test() {
			continue
		}
		for _, d := range s.file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				ast.Inspect(fn, func(n ast.Node) bool {
					if loop, ok := n.(*ast.RangeStmt); ok && namelessRows(fn, loop) {
						nameless = append(nameless, s.fset.Position(loop.Pos()).String())
					}
					return true
				})
			}
		}
	}
	if len(nameless) > maxNameless {
		t.Errorf("the rows of %d tables have no names, of %d more than may be: give them to t.Run, or say them in messages\n%s",
			len(nameless), len(nameless)-maxNameless, strings.Join(nameless, "\n"))
	}
	if len(nameless) < maxNameless {
		t.Errorf("the rows of %d tables have no names: turn maxNameless down to that", len(nameless))
	}
}

// namelessRows is true for a loop over a table of structs that runs no subtest and has a message that no row's own word is in.
func namelessRows(fn *ast.FuncDecl, loop *ast.RangeStmt) bool {
	row, ok := loop.Value.(*ast.Ident)
	fields := tableOf(fn, loop.X)
	if !ok || fields == nil {
		return false
	}
	words := map[string]bool{}
	for _, f := range fields.List {
		for _, name := range f.Names {
			words[name.Name] = tells(f.Type) && !strings.HasPrefix(name.Name, "want") && name.Name != "err"
		}
	}
	bad, runs := false, false
	ast.Inspect(loop.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		fun, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		switch fun.Sel.Name {
		case "Run":
			runs = true
		case "Errorf", "Fatalf":
			bad = bad || !mentions(call.Args, row.Name, words)
		}
		return true
	})
	return bad && !runs
}

// tableOf returns the fields of the rows if x is a literal of structs, or a variable of fn that has been set to one.
func tableOf(fn *ast.FuncDecl, x ast.Expr) (fields *ast.FieldList) {
	if name, ok := x.(*ast.Ident); ok {
		ast.Inspect(fn, func(n ast.Node) bool {
			if set, ok := n.(*ast.AssignStmt); ok && len(set.Lhs) == 1 && len(set.Rhs) == 1 {
				if to, ok := set.Lhs[0].(*ast.Ident); ok && to.Name == name.Name {
					x = set.Rhs[0]
				}
			}
			return true
		})
	}
	if lit, ok := x.(*ast.CompositeLit); ok {
		if list, ok := lit.Type.(*ast.ArrayType); ok {
			if row, ok := list.Elt.(*ast.StructType); ok {
				return row.Fields
			}
		}
	}
	return nil
}

// tells says whether values of a type can be read in a message: words and numbers, and kinds, which have names.
func tells(typ ast.Expr) bool {
	switch x := typ.(type) {
	case *ast.Ident:
		return types.Universe.Lookup(x.Name) != nil && x.Name != "error"
	case *ast.ArrayType:
		return tells(x.Elt)
	case *ast.SelectorExpr:
		pkg, ok := x.X.(*ast.Ident)
		return ok && (pkg.Name+"."+x.Sel.Name == "resource.Kind" || pkg.Name == "time" || pkg.Name == "netip")
	}
	return false
}

// mentions says whether a field of the row that tells something is among the arguments of a message.
func mentions(args []ast.Expr, row string, words map[string]bool) (found bool) {
	for _, arg := range args {
		ast.Inspect(arg, func(n ast.Node) bool {
			if x, ok := n.(*ast.SelectorExpr); ok {
				if name, ok := x.X.(*ast.Ident); ok && name.Name == row && words[x.Sel.Name] {
					found = true
				}
			}
			return true
		})
	}
	return found
}
