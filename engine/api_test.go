package engine_test

import (
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// apiFile lists what is promised of package engine: its exported names with their types.
const apiFile = "../docs/api.txt"

// TestAPI: what users build on changes only on purpose. A line that goes breaks programs; one that comes is a new promise.
func TestAPI(t *testing.T) {
	now := exported(t, "github.com/kloop-dev/kloop/engine")
	if os.Getenv("KLOOP_WRITE") != "" {
		if err := os.WriteFile(apiFile, []byte(strings.Join(now, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(apiFile)
	if err != nil {
		t.Fatal(err)
	}
	promised := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, line := range promised {
		if !slices.Contains(now, line) {
			t.Errorf("programs that use this break: %s", line)
		}
	}
	for _, line := range now {
		if !slices.Contains(promised, line) {
			t.Errorf("%s is a new promise; if it is to be one: KLOOP_WRITE=1 go test ./engine -run TestAPI", line)
		}
	}
}

// exported lists a package's exported names, fields and methods, by what the compiler wrote about it.
func exported(t *testing.T, path string) (list []string) {
	t.Helper()
	out, err := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[name] = file
	}
	open := func(path string) (io.ReadCloser, error) { return os.Open(files[path]) }
	p, err := importer.ForCompiler(token.NewFileSet(), "gc", open).Import(path)
	if err != nil {
		t.Fatal(err)
	}
	own := types.RelativeTo(p)
	for _, name := range p.Scope().Names() {
		obj := p.Scope().Lookup(name)
		if !obj.Exported() {
			continue
		}
		tn, ok := obj.(*types.TypeName)
		if !ok {
			text := types.ObjectString(obj, own)
			if c, ok := obj.(*types.Const); ok {
				text += " = " + c.Val().String()
			}
			list = append(list, text)
			continue
		}
		named := tn.Type().(*types.Named)
		list = append(list, "type "+types.TypeString(named, own))
		if s, ok := named.Underlying().(*types.Struct); ok {
			for f := range s.Fields() {
				if f.Exported() {
					list = append(list, fmt.Sprintf("field %s.%s %s", name, f.Name(), types.TypeString(f.Type(), own)))
				}
			}
		}
		for m := range types.NewMethodSet(types.NewPointer(named)).Methods() {
			if m.Obj().Exported() {
				list = append(list, fmt.Sprintf("method %s.%s %s", name, m.Obj().Name(), types.TypeString(m.Type(), own)))
			}
		}
	}
	slices.Sort(list)
	return list
}
