// Package golden holds code against golden files that read as prose: scripts of commands, each with what came of it below.
package golden

import (
	"os"
	"strings"
	"testing"
)

// Run runs a script. Every line is a command for do, but empty ones and comments, which begin with #. What do tells stands below it,
// indented by two spaces. KLOOP_WRITE=1 brings the script up to date; look at the difference line by line.
func Run(t *testing.T, path string, do func(line string) string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := replay(string(text), do)
	switch {
	case got == string(text):
	case os.Getenv("KLOOP_WRITE") != "":
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s says something else; KLOOP_WRITE=1 writes what is so:\n%s", path, difference(string(text), got))
	}
}

// replay returns the script with what do tells now.
func replay(script string, do func(line string) string) string {
	var out strings.Builder
	for line := range strings.Lines(script) {
		if line = strings.TrimSuffix(line, "\n"); strings.HasPrefix(line, "  ") {
			continue // what was told before
		}
		out.WriteString(line + "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		for told := range strings.Lines(do(line)) {
			out.WriteString("  " + strings.TrimSuffix(told, "\n") + "\n")
		}
	}
	return out.String()
}

// difference shows the first line that differs, with the command above it.
func difference(was, is string) string {
	old, now := strings.Split(was, "\n"), strings.Split(is, "\n")
	command := ""
	for i := range min(len(old), len(now)) {
		if old[i] != now[i] {
			return command + "\n- " + old[i] + "\n+ " + now[i]
		}
		if !strings.HasPrefix(now[i], "  ") {
			command = now[i]
		}
	}
	return command
}
