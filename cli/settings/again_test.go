package settings

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestAgain: what the file says now is taken, and flags keep the last word.
func TestAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kloop.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(header+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("log: info\nstore: memory\napi: {maxReads: 7}\n")
	o := Defaults()
	s := New(&o)
	fs := flag.NewFlagSet("up", flag.ContinueOnError)
	s.Bind(fs, Up)
	none := func(string) (string, bool) { return "", false }
	if err := fs.Parse([]string{"--store", "etcd"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Fill(path, none); err != nil {
		t.Fatal(err)
	}
	write("log: debug\nstore: memory\n")
	next, now, err := s.Again()
	if err != nil {
		t.Fatal(err)
	}
	if now.LogLevel != "debug" || now.Store != "etcd" || o.LogLevel != "info" || o.MaxReads != 7 {
		t.Errorf("now %s in %s, before %s with %d", now.LogLevel, now.Store, o.LogLevel, o.MaxReads)
	}
	if keys := next.Differ(s); !slices.Equal(keys, []string{"log", "api.maxReads"}) {
		t.Errorf("changed: %q", keys)
	}
	write("loge: debug\n")
	if _, _, err := s.Again(); err == nil {
		t.Error("a word that is no setting is taken")
	}
}

// TestLive: settings that change while a process runs are settings.
func TestLive(t *testing.T) {
	o := Defaults()
	counts := map[string]int{}
	for _, s := range New(&o).list {
		counts[Live(s.Key)]++
	}
	if counts["SIGHUP"] != 1 || counts["file"] != 6 || counts["restart"] < 100 {
		t.Errorf("%v", counts)
	}
}
