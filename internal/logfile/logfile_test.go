package logfile

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestKeep: a program writes on to the log that was cut under it, and the end of what was before lies beside it.
func TestKeep(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	f, err := Create(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	say := func(text string) {
		t.Helper()
		cmd := exec.Command("cat")
		cmd.Stdin, cmd.Stdout = strings.NewReader(text), f
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
	}
	say(strings.Repeat("old line\n", Most/9+1))
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), lookEvery+time.Second)
		defer cancel()
		Keep(ctx, path)
	})
	say("new line\n")
	if text, err := os.ReadFile(path); err != nil || string(text) != "new line\n" {
		t.Errorf("the log has %d bytes, %v", len(text), err)
	}
	if text, err := os.ReadFile(path + Former); err != nil || len(text) != Most/2 || !strings.HasSuffix(string(text), "old line\n") {
		t.Errorf("the log before has %d bytes, %v", len(text), err)
	}
}

func TestCut(t *testing.T) {
	const text = "0123456789"
	for _, tt := range []struct {
		name         string
		most         int64
		full         bool // there is no room to keep the end
		left, former string
	}{
		{"short enough", 10, false, text, ""},
		{"too long", 8, false, "", "6789"},
		{"too long, on a full disk", 8, true, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if tt.full {
				if err := os.Mkdir(path+Former, 0o700); err != nil { // what can't be replaced
					t.Fatal(err)
				}
			}
			if err := cut(path, tt.most); (err != nil) != tt.full {
				t.Error(err)
			}
			if left, err := os.ReadFile(path); err != nil || string(left) != tt.left {
				t.Errorf("left %q, %v", left, err)
			}
			if former, _ := os.ReadFile(path + Former); string(former) != tt.former {
				t.Errorf("kept %q, want %q", former, tt.former)
			}
		})
	}
}
