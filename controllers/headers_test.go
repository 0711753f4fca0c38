package controllers

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/kinds"
)

// TestHeaders holds the reads, writes and rule that open each controller against its code: a kind that the code names is in the
// header, and what the header says it writes is what it may write.
func TestHeaders(t *testing.T) {
	kindOf := map[string]string{} // by the name of its variable in package kinds, in lower case
	for _, k := range kinds.NewSet().All() {
		kindOf[k.Info().Plural] = k.Info().GVK.Kind
	}
	dirs, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range dirs {
		dirs[i] = filepath.Dir(f)
	}
	for _, dir := range slices.Compact(dirs) {
		t.Run(dir, func(t *testing.T) {
			for _, fault := range headerFaults(readSource(t, dir), kindOf) {
				t.Error(fault)
			}
		})
	}
}

// TestHeadersCanFail has a header that is wrong in each way.
func TestHeadersCanFail(t *testing.T) {
	kindOf := map[string]string{"pods": "Pod", "nodes": "Node", "jobs": "Job"}
	s := source{doc: "\treads   Pod\n\twrites  Job: delete\n", uses: []string{"Pods", "Nodes"}, writes: []string{"Pods"}}
	got := headerFaults(s, kindOf)
	want := []string{"the header has no rule", "it may write Pods, and the header's writes do not name them",
		"the header's writes name Job, which it may not write", "the code names kinds.Nodes, and the header neither reads nor writes it"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// A source is what a controller's code says of the kinds that it deals with.
type source struct {
	doc          string
	uses, writes []string // names of variables of package kinds
	anything     bool     // some of its loops may write every kind
}

func readSource(t *testing.T, dir string) (s source) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, f.Name()), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if doc := file.Doc.Text(); strings.HasPrefix(doc, "Package ") {
			s.doc = doc
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if kv, ok := n.(*ast.KeyValueExpr); ok && fmt.Sprint(kv.Key) == "Writes" {
				s.anything = s.anything || len(kindsIn(kv.Value)) == 0
				s.writes = append(s.writes, kindsIn(kv.Value)...)
			}
			return true
		})
		s.uses = append(s.uses, kindsIn(file)...)
	}
	return s
}

// kindsIn lists what is named of package kinds below a node.
func kindsIn(n ast.Node) (list []string) {
	ast.Inspect(n, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && fmt.Sprint(sel.X) == "kinds" {
			list = append(list, sel.Sel.Name)
		}
		return true
	})
	return list
}

var headerPart = regexp.MustCompile(`(?m)^\t(reads|writes|rule) +(.*(?:\n\t {8}.*)*)`)

func headerFaults(s source, kindOf map[string]string) (faults []string) {
	parts := map[string]string{}
	for _, m := range headerPart.FindAllStringSubmatch(s.doc, -1) {
		parts[m[1]] = m[2]
	}
	for _, p := range []string{"reads", "writes", "rule"} {
		if parts[p] == "" {
			faults = append(faults, "the header has no "+p)
		}
	}
	may := map[string]bool{}
	for _, v := range s.writes {
		kind := kindOf[strings.ToLower(v)]
		may[kind] = true
		if !names(parts["writes"], kind) {
			faults = append(faults, "it may write "+v+", and the header's writes do not name them")
		}
	}
	for _, kind := range slices.Sorted(maps.Values(kindOf)) {
		if !s.anything && !may[kind] && regexp.MustCompile(`(^|; |\n *)`+kind+`( [a-z-]+(/[a-z-]+)?)?:`).MatchString(parts["writes"]) {
			faults = append(faults, "the header's writes name "+kind+", which it may not write")
		}
	}
	both := parts["reads"] + "; " + parts["writes"]
	for _, v := range slices.Compact(slices.Sorted(slices.Values(s.uses))) {
		kind := kindOf[strings.ToLower(v)]
		if kind != "" && !names(both, kind) && !strings.Contains(both, "every kind") {
			faults = append(faults, "the code names kinds."+v+", and the header neither reads nor writes it")
		}
	}
	return faults
}

// names says whether a text has a kind, or several of it.
func names(text, kind string) bool {
	stem := strings.TrimSuffix(kind, "y")
	return regexp.MustCompile(`\b` + stem + `(y|s|es|ies)?\b`).MatchString(text)
}
