package podnetwork

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCNI: the configuration is written when it changes, and only then, for the runtime loads it each time.
func TestCNI(t *testing.T) {
	c := CNI{File: filepath.Join(t.TempDir(), "net.d", "10-kloop.conflist"), Dir: "/var/lib/kloop/ipam"}
	one := []netip.Prefix{netip.MustParsePrefix("10.88.3.0/24")}
	write := func(mtu int, ranges []netip.Prefix) os.FileInfo {
		t.Helper()
		if err := c.write(ranges, mtu); err != nil {
			t.Fatal(err)
		}
		i, err := os.Stat(c.File)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	first, again := write(1450, one), write(1450, one)
	if !os.SameFile(first, again) || !first.ModTime().Equal(again.ModTime()) {
		t.Error("it was written though nothing changed")
	}
	if os.SameFile(first, write(1400, one)) {
		t.Error("it was not replaced when the MTU changed")
	}
	write(1450, append(one, netip.MustParsePrefix("fd88::/64")))
	text, err := os.ReadFile(c.File)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"subnet": "10.88.3.0/24"`, `"subnet": "fd88::/64"`, `"dst": "::/0"`, `"dst": "0.0.0.0/0"`, `"mtu": 1450`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("it lacks %s:\n%s", want, text)
		}
	}
	if list, err := os.ReadDir(filepath.Dir(c.File)); err != nil || len(list) != 1 {
		t.Errorf("the directory holds %v, %v", list, err)
	}
	if err := (CNI{}).write(one, 1450); err != nil {
		t.Error(err)
	}
}

// TestCNIOnFullDisk: what can't be written leaves the former configuration as it was, by which the runtime goes on.
func TestCNIOnFullDisk(t *testing.T) {
	c := CNI{File: filepath.Join(t.TempDir(), "10-kloop.conflist")}
	one := []netip.Prefix{netip.MustParsePrefix("10.88.3.0/24")}
	if err := c.write(one, 1450); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(c.File)
	if err != nil {
		t.Fatal(err)
	}
	for _, next := range []string{".new", ".next"} { // whichever name it has before
		if err := os.Symlink("/dev/full", c.File+next); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.write(one, 1400); err == nil {
		t.Error("a full disk is no error")
	}
	if i, err := os.Lstat(c.File); err != nil || !i.Mode().IsRegular() {
		t.Fatal("what could not be written took its place")
	}
	if after, err := os.ReadFile(c.File); err != nil || string(after) != string(before) {
		t.Errorf("it is now %q, %v", after, err)
	}
}
