package cli

import (
	"bytes"
	"encoding/json"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/kloop-dev/kloop/cli/settings"
	"github.com/kloop-dev/kloop/internal/eventually"
)

// A shared buffer is written by the log and read by the test.
type shared struct {
	lock sync.Mutex
	text bytes.Buffer
}

func (s *shared) Write(b []byte) (int, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.text.Write(b)
}

func (s *shared) String() string {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.text.String()
}

func TestLogFormats(t *testing.T) {
	defer slog.SetDefault(slog.Default())
	var out shared
	log, err := logger(stdio{err: &out}, "info", logJSON)
	if err != nil {
		t.Fatal(err)
	}
	log.Debug("no")
	log.Info("yes", "node", "n1")
	var line map[string]any
	if err := json.Unmarshal([]byte(out.String()), &line); err != nil || line["msg"] != "yes" || line["node"] != "n1" {
		t.Errorf("%v: %s", err, &out)
	}
	for _, bad := range [][2]string{{"info", "xml"}, {"loud", logText}} {
		if _, err := logger(stdio{err: &out}, bad[0], bad[1]); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestHangup: a signal changes the level while the process runs; other settings are said to wait, bad ones change nothing.
func TestHangup(t *testing.T) {
	defer slog.SetDefault(slog.Default())
	path := filepath.Join(t.TempDir(), "kloop.yaml")
	write := func(text string) {
		t.Helper()
		text = "apiVersion: kloop.dev/v1alpha1\nkind: Config\n" + text
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("log: warn\n")
	o := settings.Defaults()
	s := settings.New(&o)
	s.Bind(flag.NewFlagSet("up", flag.ContinueOnError), settings.Up)
	if err := s.Fill(path, lookupEnv); err != nil {
		t.Fatal(err)
	}
	var out shared
	if _, err := logger(stdio{err: &out}, o.LogLevel, o.LogFormat); err != nil {
		t.Fatal(err)
	}
	heed(t.Context(), stdio{}, s)
	for _, tt := range []struct {
		file, says string
		want       slog.Level
	}{
		{"log: debug\n", "settings were read again", slog.LevelDebug},
		{"log: [\n", "settings can't be read", slog.LevelDebug},
		{"log: loud\n", "is none of debug, info, warn, error", slog.LevelDebug},
		{"log: error\napi: {maxReads: 9}\n", "", slog.LevelError},
		{"log: info\napi: {maxReads: 9}\n", "api.maxReads", slog.LevelInfo},
	} {
		t.Run(tt.file, func(t *testing.T) {
			write(tt.file)
			hangup(t)
			eventually.Sees(t, eventually.Patience, tt.file, func() (bool, string) {
				said := out.String()
				return level.Level() == tt.want && strings.Contains(said, tt.says), level.Level().String() + "\n" + said
			})
		})
	}
}
