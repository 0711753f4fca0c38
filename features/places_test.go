package features

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every gate that /metrics shows as on has a place where what it says is done, and a test or a function there. One that kloop lacks is
// told to be off, and docs/differences.md names it.
func TestClaims(t *testing.T) {
	text, err := os.ReadFile("testdata/places.tsv")
	if err != nil {
		t.Fatal(err)
	}
	placed := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimSpace(line), "\t")
		if len(f) != 3 || placed[f[0]] || f[2] == "" {
			t.Errorf("%q: want a gate once, its file, and a word in it", line)
			continue
		}
		if placed[f[0]] = true; f[1] == "-" {
			continue
		}
		code, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(f[1])))
		if err != nil || !strings.Contains(string(code), f[2]) {
			t.Errorf("%s: %q is not in %s: %v", f[0], f[2], f[1], err)
		}
	}
	differences, err := os.ReadFile("../docs/differences.md")
	if err != nil {
		t.Fatal(err)
	}
	claimed := map[string]bool{}
	for minor := Oldest; minor <= Newest; minor++ {
		for name, g := range Known(minor) {
			on := g.Does(g.Default)
			claimed[name] = claimed[name] || on
			switch {
			case on && !placed[name]:
				t.Errorf("1.%d claims %s, and testdata/places.tsv does not say where it is done", minor, name)
			case g.Absent && (placed[name] || g.Honours):
				t.Errorf("%s is absent and has a place", name)
			case g.Absent && g.Default && !strings.Contains(string(differences), "`"+name+"`"):
				t.Errorf("%s is absent, and docs/differences.md does not name it", name)
			}
		}
	}
	for name := range placed {
		t.Run(name, func(t *testing.T) {
			if !claimed[name] {
				t.Errorf("%s has a place and is not claimed", name)
			}
		})
	}
}
