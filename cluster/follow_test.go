package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestFollow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	used := ""
	use := func(data []byte) error {
		if string(data) == "bad" {
			return errors.New("no good")
		}
		used = string(data)
		return nil
	}
	c := &Cluster{}
	if err := c.follow("test", path, use); err == nil {
		t.Error("a missing file was read")
	}
	if put("bad"); c.follow("test", path, use) == nil {
		t.Error("a bad file was used")
	}
	put("one")
	if err := c.follow("test", path, use); err != nil {
		t.Fatal(err)
	}
	for _, s := range []struct {
		text    string
		changed bool
		fails   bool
		used    string
	}{{"one", false, false, "one"}, {"two", true, false, "two"}, {"bad", false, true, "two"}, {"bad", false, false, "two"}, {"three", true, false, "three"}} {
		put(s.text)
		if changed, err := c.files[0].look(); changed != s.changed || (err != nil) != s.fails || used != s.used {
			t.Errorf("%s: changed %v, used %s, %v", s.text, changed, used, err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := c.files[0].look(); err == nil || used != "three" {
		t.Error("a file that is gone is no error")
	}
}
