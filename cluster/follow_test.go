package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestFollowTogether: of files that belong together one may change alone, as a certificate before its key.
func TestFollowTogether(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	put := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(cert, "1")
	put(key, "1")
	used := ""
	c := &Cluster{}
	if err := c.follow(load("pair", func(data [][]byte) error {
		if string(data[0]) != string(data[1]) {
			return errors.New("they do not belong together")
		}
		used = string(data[0])
		return nil
	}, cert, key)); err != nil {
		t.Fatal(err)
	}
	put(cert, "2")
	if _, err := c.files[0].look(); err == nil || used != "1" {
		t.Errorf("a half was used: %s, %v", used, err)
	}
	put(key, "2")
	if changed, err := c.files[0].look(); !changed || err != nil || used != "2" {
		t.Errorf("used %s, %v", used, err)
	}
}

func TestFollow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	used := ""
	use := func(data [][]byte) error {
		if string(data[0]) == "bad" {
			return errors.New("no good")
		}
		used = string(data[0])
		return nil
	}
	c := &Cluster{}
	if err := c.follow(load("test", use, path)); err == nil {
		t.Error("a missing file was read")
	}
	if put("bad"); c.follow(load("test", use, path)) == nil {
		t.Error("a bad file was used")
	}
	put("one")
	if err := c.follow(load("test", use, path)); err != nil {
		t.Fatal(err)
	}
	for _, s := range []struct {
		text    string
		changed bool
		fails   bool
		used    string
	}{{"one", false, false, "one"}, {"two", true, false, "two"}, {"bad", false, true, "two"}, {"bad", false, false, "two"}, {"three",
		true, false, "three"}} {
		t.Run(s.text, func(t *testing.T) {
			put(s.text)
			if changed, err := c.files[0].look(); changed != s.changed || (err != nil) != s.fails || used != s.used {
				t.Errorf("%s: changed %v, used %s, %v", s.text, changed, used, err)
			}
		})
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := c.files[0].look(); err == nil || used != "three" {
		t.Error("a file that is gone is no error")
	}
}
