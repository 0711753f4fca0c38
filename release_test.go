package main

import (
	"go/ast"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"

	"github.com/kloop-dev/kloop/features"
)

// staged are Kubernetes' modules that carry its release as v0.MINOR.PATCH.
var staged = regexp.MustCompile(`^k8s\.io/(api|apiextensions-apiserver|apimachinery|apiserver|client-go|component-base|kubectl|metrics)$`)

var literal = regexp.MustCompile(`\b[v/]?1\.` + strings.Split(features.Release, ".")[1] + `(\.\d+)?\b`)

// TestRelease holds the constant against the modules, and finds programs that say the release in words of their own.
func TestRelease(t *testing.T) {
	data, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := modfile.Parse("go.mod", data, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := "v0" + strings.TrimPrefix(features.Release, "1")
	for _, r := range mod.Require {
		if staged.MatchString(r.Mod.Path) && r.Mod.Version != want {
			t.Errorf("%s is %s, and features.Release is %s", r.Mod.Path, r.Mod.Version, features.Release)
		}
	}
	if minor := (*features.Set)(nil).String(); !strings.HasPrefix(features.Release, minor+".") {
		t.Errorf("features.Newest is %s, and features.Release is %s", minor, features.Release)
	}
	for _, s := range mustSources(t) {
		if s.test() || s.path == "features/release.go" || strings.HasPrefix(s.path, "test/") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if ok && lit.Kind == token.STRING && literal.MatchString(lit.Value) && !strings.Contains(lit.Value, "\n") && !documentation[s.path] {
				t.Errorf("%s: %s: take it from package features", s.fset.Position(lit.Pos()), lit.Value)
			}
			return true
		})
	}
}

// documentation are files whose texts for people name the releases that there are.
var documentation = map[string]bool{"cli/settings/table.go": true}
