package cluster_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kit/whole"
)

func TestCheckFormat(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		newer      bool
		says       string
	}{
		{"none", "", false, ""},
		{"this", fmt.Sprintf(`{"format":%d,"program":%q}`, cluster.Format, features.Version()), false, ""},
		{"a minor release ahead", fmt.Sprintf(`{"format":1,"program":"v1.%d.0+kloop.9.0.0"}`, features.Newest+1), false, ""},
		{"two ahead", fmt.Sprintf(`{"format":1,"program":"v1.%d.0+kloop.9.0.0"}`, features.Newest+2), true, "one minor release"},
		{"a newer format", fmt.Sprintf(`{"format":%d,"program":"v1.37.9+kloop.9.0.0"}`, cluster.Format+1), true, "v1.37.9+kloop.9.0.0"},
		{"garbage", "{", false, "does not say"},
		{"nothing in it", "{}", false, "does not say"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if tt.text != "" {
				if err := os.WriteFile(filepath.Join(dir, "format.json"), []byte(tt.text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := cluster.CheckFormat(dir)
			says := err == nil
			if tt.says != "" {
				says = err != nil && strings.Contains(err.Error(), tt.says)
			}
			if !says || errors.Is(err, cluster.ErrNewer) != tt.newer {
				t.Errorf("got %v, want %q", err, tt.says)
			}
		})
	}
}

// TestFormatOfStart: a start notes the format, and a directory that is refused is left as it is.
func TestFormatOfStart(t *testing.T) {
	dir := t.TempDir()
	c, err := cluster.Start(t.Context(), cluster.Config{Kit: whole.Kit(), DataDir: dir, Listen: "127.0.0.1:0", NoLoops: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "format.json")
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), features.Version()) {
		t.Fatalf("noted %s, %v", text, err)
	}
	later := []byte(fmt.Sprintf(`{"format":%d,"program":"v1.37.9+kloop.9.0.0"}`, cluster.Format+1))
	if err := os.WriteFile(path, later, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = cluster.Start(t.Context(), cluster.Config{Kit: whole.Kit(), DataDir: dir, Listen: "127.0.0.1:0", NoLoops: true})
	if !errors.Is(err, cluster.ErrNewer) {
		t.Errorf("started with %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != string(later) {
		t.Errorf("the note is %s, %v", text, err)
	}
}
