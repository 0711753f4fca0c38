package specs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTables holds every table against the tests that it names.
func TestTables(t *testing.T) {
	tables, err := filepath.Glob("*.tsv")
	if err != nil || len(tables) == 0 {
		t.Fatal("no tables", err)
	}
	files := map[string]string{}
	for _, table := range tables {
		text, err := os.ReadFile(table)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "#") {
				continue
			}
			f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
			if len(f) != 4 || f[0] == "" || f[1] == "" || seen[strings.Join(f[:3], "\t")] {
				t.Errorf("%s: %q: want four columns, each spec once", table, line)
				continue
			}
			seen[strings.Join(f[:3], "\t")] = true
			if why := fault(f[3], files); why != "" {
				t.Errorf("%s: %s: %s", table, f[1], why)
			}
		}
	}
}

// fault says why the last column is wrong; "": it is right. files are those that were read.
func fault(text string, files map[string]string) string {
	if reason, ok := strings.CutPrefix(text, "- "); ok {
		if len(reason) < 10 {
			return "no reason"
		}
		return ""
	}
	for one := range strings.SplitSeq(text, "; ") {
		path, name, ok := strings.Cut(one, " ")
		if !ok || !strings.HasPrefix(name, "Test") {
			return "want a file and a test, not " + one
		}
		if _, known := files[path]; !known {
			code, err := os.ReadFile(filepath.Join("../..", filepath.FromSlash(path)))
			if err != nil {
				return err.Error()
			}
			files[path] = string(code)
		}
		if !strings.Contains(files[path], "\nfunc "+name+"(") {
			return path + " has no " + name
		}
	}
	return ""
}

func TestFault(t *testing.T) {
	for text, bad := range map[string]bool{"- because of the weather": false, "- no": true, "": true, "x": true,
		"test/specs/specs_test.go TestFault": false, "test/specs/specs_test.go TestGone": true, "none.go TestFault": true,
		"test/specs/specs_test.go TestFault; test/specs/specs_test.go TestTables": false} {
		t.Run(text, func(t *testing.T) {
			if why := fault(text, map[string]string{}); (why != "") != bad {
				t.Errorf("%q: %q", text, why)
			}
		})
	}
}
