package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/term"

	"github.com/kloop-dev/kloop/cli/settings"
)

// level is from where on the process logs. It belongs to the process, as its log does: a signal changes it.
var level slog.LevelVar

// The formats of the log.
const (
	logText = "text"
	logJSON = "json"
)

// logger writes to std.err; at is debug, info, warn or error, format text or json.
func logger(std stdio, at, format string) (*slog.Logger, error) {
	if err := setLevel(at); err != nil {
		return nil, err
	}
	var h slog.Handler
	switch o := (&slog.HandlerOptions{Level: &level}); format {
	case logText, "":
		h = slog.NewTextHandler(std.err, o)
	case logJSON:
		h = slog.NewJSONHandler(std.err, o)
	default:
		return nil, fmt.Errorf("logging format %q: use text or json", format)
	}
	log := slog.New(h)
	slog.SetDefault(log)
	return log, nil
}

func setLevel(at string) error {
	var l slog.Level
	if err := l.UnmarshalText([]byte(at)); err != nil {
		return fmt.Errorf("log level %q: use debug, info, warn or error", at)
	}
	level.Set(l)
	return nil
}

// verbose sets the level as klog counts: the API's /debug/flags/v.
func verbose(n int) {
	if err := setLevel(verbosity(strconv.Itoa(max(n, 0)))); err != nil {
		slog.Error("the level of the log stays", "err", err)
	}
}

// heed reads the settings again whenever the process gets SIGHUP, until ctx ends. The level of the log is changed at once; of other
// settings that changed since the start it says that they wait for a restart. Settings that can't be read change nothing. A process
// that was started from a terminal is left to end with it.
func heed(ctx context.Context, std stdio, s *settings.Sheet) {
	if f, ok := std.in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	first, _, err := s.Again() // what runs changes options of its own
	if err != nil {
		first = s
	}
	go func() {
		defer signal.Stop(hangup)
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangup:
				reread(first)
			}
		}
	}()
}

// reread takes what the settings say now.
func reread(first *settings.Sheet) {
	next, o, err := first.Again()
	if err == nil {
		err = setLevel(o.LogLevel)
	}
	if err != nil {
		slog.Error("settings can't be read: those of before stay", "err", err)
		return
	}
	var waiting []string
	for _, key := range next.Differ(first) {
		if settings.Live(key) != "SIGHUP" {
			waiting = append(waiting, key)
		}
	}
	if len(waiting) > 0 {
		slog.Warn("settings changed that take a restart", "settings", strings.Join(waiting, ", "))
	}
	slog.Info("settings were read again", "log", o.LogLevel)
}
