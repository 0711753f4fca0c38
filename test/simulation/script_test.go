package simulation

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestScriptKeepsWhatItFinds: scripts/sim writes down each run, and what seeds that failed had to say.
func TestScriptKeepsWhatItFinds(t *testing.T) {
	script, err := os.ReadFile("../../scripts/sim")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run := func(said string, fails bool) error {
		t.Helper()
		end := "0"
		if fails {
			end = "1"
		}
		for name, text := range map[string]string{"scripts/sim": string(script), "bin/git": "#!/bin/sh\necho abc123\n",
			"bin/go": "#!/bin/sh\ncat <<'END'\n" + said + "END\nexit " + end + "\n"} {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "scripts/sim"), "3", "17")
		cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
		return cmd.Run()
	}
	if err := run("ok  \tsimulation\t2.1s\n", false); err != nil {
		t.Error(err)
	}
	err = run("--- FAIL: TestSeeds (0.00s)\n    --- FAIL: TestSeeds/18 (0.75s)\n        x.go:1: the end differs\n"+
		"    --- FAIL: TestSeeds/19 (0.75s)\n        x.go:2: no rest\nFAIL\nFAIL\tsimulation\t2.1s\n", true)
	if err == nil {
		t.Error("a run that found something says nothing of it")
	}
	read := func(name string) string {
		text, _ := os.ReadFile(filepath.Join(dir, "bin/sim", name)) // none: empty
		return string(text)
	}
	runs := strings.Split(strings.TrimSpace(read("runs.tsv")), "\n")
	if len(runs) != 2 || !strings.HasSuffix(runs[0], "\tabc123\t17\t3\tnone") || !strings.HasSuffix(runs[1], "\tabc123\t17\t3\t18 19") {
		t.Errorf("runs: %q", runs)
	}
	if text := read("18.txt"); !strings.Contains(text, "the end differs") || strings.Contains(text, "no rest") {
		t.Errorf("of seed 18: %q", text)
	}
	if text := read("19.txt"); !strings.Contains(text, "no rest") || strings.Contains(text, "FAIL\tsim") {
		t.Errorf("of seed 19: %q", text)
	}
}
