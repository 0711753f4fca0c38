package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

const module = "github.com/kloop-dev/kloop"

// ladder lists the packages from the ground up. A package may import what stands on a lower rung and what
// lives inside its own folder, nothing else. Peers on one rung never import each other.
var ladder = [][]string{
	{"internal/"},
	{"features", "strict", "nft", "ipvs", "notify", "forwarding", "packaging"},
	{"resource"},
	{"kinds/rule", "kinds/cell", "kinds/expression"},
	{"kinds/podspec"},
	{"kinds/template", "kinds/events"},
	{"kinds/core"},
	{"kinds/"},
	{"kinds"},
	{"store"},
	{"view"},
	{"webhook"},
	{"apply", "crd", "auth", "openapi", "trail", "history"},
	{"admission"},
	{"server"},
	{"client"},
	{"loop"},
	{"controllers/internal/ownership"},
	{"controllers/internal/pods"},
	{"controllers/internal"},
	{"controllers/", "scheduler", "node", "proxy", "podnetwork", "netpolicy", "dns", "loadbalancer", "metrics", "converge", "web"},
	{"controllers"},
	{"sim", "survey", "past"},
	{"kit"},
	{"internal/testcluster", "internal/testpolicy", "internal/states"},
	{"cluster"},
	{"machine", "plan", "engine", "simtest", "clusters", "service"},
	{"cli"},
	{"cmd", "test", "examples"},
}

// rung returns the height of a package; a name that ends in / stands for every folder below it.
func rung(path string) int {
	best, at := -1, -1
	for i, names := range ladder {
		for _, n := range names {
			dir := strings.TrimSuffix(n, "/")
			below := strings.HasPrefix(path, dir+"/")
			if (below || path == n) && len(n) > best {
				best, at = len(n), i
			}
		}
	}
	return at
}

type pkg struct {
	ImportPath, Doc  string
	Imports, GoFiles []string
}

func packages(t *testing.T) (list []pkg) {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,Doc,GoFiles", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p pkg
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	return list
}

func TestLadder(t *testing.T) {
	for _, p := range packages(t) {
		self := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if self == "" {
			continue
		}
		if rung(self) < 0 {
			t.Errorf("%s: stands on no rung of the ladder; add it", self)
		}
		if p.Doc == "" {
			t.Errorf("%s: has no package comment", self)
		}
		top, _, _ := strings.Cut(self, "/")
		for _, imp := range p.Imports {
			dep, ours := strings.CutPrefix(imp, module+"/")
			inside := strings.HasPrefix(dep, self+"/") || (top == strings.SplitN(dep, "/", 2)[0] && rung(dep) == rung(self) && top != "controllers")
			if ours && rung(dep) >= rung(self) && !inside {
				t.Errorf("%s imports %s, which does not stand below it", self, dep)
			}
		}
	}
}

func TestModules(t *testing.T) {
	data, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := modfile.Parse("go.mod", data, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range mod.Require {
		if !r.Indirect && modules[r.Mod.Path] == "" {
			t.Errorf("module %s has no reason to be here: give it one in modules_test.go or drop it", r.Mod.Path)
		}
		delete(modules, r.Mod.Path)
	}
	for path := range modules {
		t.Errorf("module %s is allowed but not used", path)
	}
}
