package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// root is the repository's.
const root = "../.."

// TestSpecs holds testdata/specs.tsv to what there is: tests and scenarios that it names exist.
func TestSpecs(t *testing.T) {
	table, err := os.ReadFile(filepath.Join("testdata", "specs.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(table)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 4 {
			t.Errorf("%d fields, want 4: %s", len(f), line)
			continue
		}
		if _, err := regexp.Compile(f[1]); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		if key := f[0] + "\t" + f[1]; seen[key] {
			t.Errorf("twice: %s", line)
		} else {
			seen[key] = true
		}
		if says := missing(f[2], f[3]); says != "" {
			t.Errorf("%s: %s", line, says)
		}
	}
	if len(seen) == 0 {
		t.Error("an empty table")
	}
}

// missing tells what a row's last fields name and is not there.
func missing(sort, what string) string {
	switch sort {
	case "oracle":
		if _, err := os.Stat(filepath.Join(root, "test", "oracle", "scenarios", what)); err != nil {
			return "no such scenario"
		}
	case "test":
		file, name, _ := strings.Cut(what, ":")
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil || !strings.Contains(string(text), "\nfunc "+name+"(") {
			return "no such test"
		}
	case "none":
		if what == "" {
			return "no reason"
		}
	default:
		return "is neither oracle, test nor none"
	}
	return ""
}
