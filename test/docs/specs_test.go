package docs

import (
	"iter"
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
	seen := map[string]bool{}
	for line := range lines(t, "specs.tsv") {
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

// TestSpecsAreTested holds the table to upstream's list of names: each has a row, and each row a name.
func TestSpecsAreTested(t *testing.T) {
	type row struct {
		line string
		of   *regexp.Regexp
		used bool
	}
	rows := map[string][]*row{} // by file
	for line := range lines(t, "specs.tsv") {
		f := strings.Split(line, "\t")
		rows[f[0]] = append(rows[f[0]], &row{line: line, of: regexp.MustCompile(f[1])})
	}
	names := 0
	for line := range lines(t, "spec-names.tsv") {
		file, name, _ := strings.Cut(line, "\t")
		names++
		found := false
		for _, r := range rows[file] {
			if r.of.MatchString(name) {
				found, r.used = true, true
			}
		}
		if !found {
			t.Errorf("no row: %s %s", file, name)
		}
	}
	for _, list := range rows {
		for _, r := range list {
			if !r.used {
				t.Errorf("no spec has such a name: %s", r.line)
			}
		}
	}
	if names < 500 {
		t.Errorf("only %d specs", names)
	}
}

// lines are those of a table, but for comments.
func lines(t *testing.T, table string) iter.Seq[string] {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", table))
	if err != nil {
		t.Fatal(err)
	}
	return func(yield func(string) bool) {
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSuffix(line, "\n"); !strings.HasPrefix(line, "#") && !yield(line) {
				return
			}
		}
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
