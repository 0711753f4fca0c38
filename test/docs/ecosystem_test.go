package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEcosystem: the page of other people's clients has a row for each that there is, of the version that would be run, and one that has
// no script has no result.
func TestEcosystem(t *testing.T) {
	table, err := os.ReadFile(filepath.Join(root, "test/ecosystem/clients.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/ecosystem.md"))
	if err != nil {
		t.Fatal(err)
	}
	run := 0
	for line := range strings.Lines(string(table)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if strings.HasPrefix(line, "#") {
			continue
		}
		if len(f) != 5 {
			t.Fatalf("%d fields, want 5: %s", len(f), line)
		}
		_, rest, found := strings.Cut(string(page), "\n| "+f[0]+" | "+f[1]+" | "+f[4]+" | ")
		result, _, _ := strings.Cut(rest, "\n")
		_, err := os.Stat(filepath.Join(root, "test/ecosystem", f[0]+".sh"))
		if !found || strings.Contains(result, "passed") && err != nil {
			t.Errorf("%s: the row in the page is another one: %q, %v", f[0], result, err)
		}
		if strings.HasPrefix(result, "passed: ") {
			run++
		}
	}
	if run < 8 {
		t.Errorf("%d clients passed, want 8 at least", run)
	}
}
