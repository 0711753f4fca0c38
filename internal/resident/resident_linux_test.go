package resident

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/kloop-dev/kloop/test/need"
)

// What is let go of is read from the file again, and what was changed is not let go of.
func TestLetGo(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file, text := filepath.Join(dir, "program"), bytes.Repeat([]byte("x"), 1<<20)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	plain, changed := privately(t, file, len(text)), privately(t, file, len(text))
	changed[0] = 'y'
	for _, b := range [][]byte{plain, changed} {
		if err := syscall.Mprotect(b, syscall.PROT_READ); err != nil {
			t.Fatal(err)
		}
		if bytes.Count(b, []byte("x")) == 0 { // all of it is touched
			t.Fatal("no text")
		}
	}
	if got := inMemory(t, file); fmt.Sprint(got) != "[1024 1024]" {
		t.Fatalf("%d KiB are resident", got)
	}
	if err := LetGo(file, "r--p"); err != nil {
		t.Fatal(err)
	}
	if got := inMemory(t, file); fmt.Sprint(got) != "[0 1024]" && fmt.Sprint(got) != "[1024 0]" {
		t.Errorf("then %d KiB are", got)
	}
	if !bytes.Equal(plain, text) || changed[0] != 'y' || !bytes.Equal(changed[1:], text[1:]) {
		t.Error("it is not what it was")
	}
}

// privately maps the file so that nobody else sees changes.
func privately(t *testing.T, file string, size int) []byte {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(b) })
	return b
}

// inMemory is how many KiB of each map of the file are resident.
func inMemory(t *testing.T, file string) (all []int) {
	t.Helper()
	table, err := os.ReadFile("/proc/self/smaps")
	need.Have(t, need.Proc, err)
	in := false
	for line := range strings.Lines(string(table)) {
		f, n := strings.Fields(line), 0
		if !strings.HasSuffix(f[0], ":") {
			in = f[len(f)-1] == file
		} else if _, err := fmt.Sscanf(line, "Rss: %d kB", &n); in && err == nil {
			all = append(all, n)
		}
	}
	return all
}
