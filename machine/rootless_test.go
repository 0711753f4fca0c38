package machine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestMissing: each thing that a node in a user namespace has not of its own is one flag of rootlesskit.
func TestMissing(t *testing.T) {
	root := t.TempDir()
	write(t, root, "cgroup.procs", "1\n15\n")
	always := func(string) bool { return true }
	if flags := missing(always, always, root); len(flags) > 0 {
		t.Errorf("nothing is missing: %v", flags)
	}
	write(t, root, "cgroup.procs", "0\n1\n")
	own := func(ns string) bool { return ns != "pid" && ns != "net" }
	can := func(dir string) bool { return dir != "/var/lib" }
	got, want := missing(own, can, root), "--net=slirp4netns --pidns --copy-up=/var/lib --evacuate-cgroup2=rootlesskit"
	if strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
	if !owned("net") && os.Getuid() == 0 {
		t.Error("root of the machine does not own its network")
	}
}

func TestUndelegated(t *testing.T) {
	root := t.TempDir()
	if got := undelegated(root); len(got) != 3 { // version 1
		t.Errorf("of nothing: %v", got)
	}
	write(t, root, "cgroup.controllers", "memory pids\n")
	if got := undelegated(root); !slices.Equal(got, []string{"cpu"}) {
		t.Errorf("of what older systemd hands on: %v", got)
	}
	write(t, root, "cgroup.controllers", "cpuset cpu io memory pids\n")
	if got := undelegated(root); len(got) > 0 {
		t.Errorf("of all: %v", got)
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
