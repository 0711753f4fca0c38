package main

import (
	"go/ast"
	"maps"
	"path"
	"slices"
	"testing"
)

// maxMethods bounds the methods of a type: one with more is several things in one.
const maxMethods = 40

// TestReceivers counts the methods of every type outside tests.
func TestReceivers(t *testing.T) {
	methods := map[string]int{}
	for _, s := range mustSources(t) {
		if s.test() {
			continue
		}
		for _, d := range s.file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
				methods[path.Dir(s.path)+"."+receiver(fn.Recv.List[0].Type)]++
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		if methods[name] > maxMethods {
			t.Errorf("%s has %d methods, more than %d: give some to a type of their own", name, methods[name], maxMethods)
		}
	}
}

func receiver(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}
