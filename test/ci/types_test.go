package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTypeCheck: what does not compile on another system is found, and what compiles is not refused.
func TestTypeCheck(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.com/x\n\ngo 1.24\n")
	write("x.go", "package main\n\nimport \"os\"\n\nfunc main() { os.Exit(code()) }\n")
	write("x_unix.go", "//go:build unix\n\npackage main\n\nfunc code() int { return 0 }\n")
	t.Chdir(dir)
	t.Setenv("GOFLAGS", "-mod=mod")
	if err := typeCheck("darwin", "arm64", "."); err != nil {
		t.Error("what compiles is refused: ", err)
	}
	err := typeCheck("windows", "amd64", ".")
	if err == nil || !strings.Contains(err.Error(), "undefined: code") {
		t.Error("a function that is not there: ", err)
	}
	write("x_windows.go", "package main\n\nfunc code() int { return \"1\" }\n")
	err = typeCheck("windows", "amd64", ".")
	if err == nil || !strings.Contains(err.Error(), "x_windows.go:3") {
		t.Error("a fault in a function's body: ", err)
	}
}
