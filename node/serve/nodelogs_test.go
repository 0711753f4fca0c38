package serve

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestNodeLogs(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	for path, text := range map[string]string{filepath.Join(dir, "syslog"): "one\ntwo\nthree\n", filepath.Join(dir, "app/app.log"): "hello\n",
		outside: "a secret\n"} {
		t.Run(path, func(t *testing.T) {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "journalctl")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho journal \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		off  bool
		code int
		want string
	}{
		{"/logs/", false, 200, "syslog"}, {"/logs/app/app.log", false, 200, "hello\n"}, {"/logs/none", false, 404, ""},
		{"/logs/link", false, 500, ""}, {"/logs/..%2f..%2fetc/passwd", false, 404, ""},
		{"/logs/?query=/syslog", false, 200, "one\ntwo\nthree\n"}, {"/logs/?query=syslog&tailLines=1", false, 200, "three\n"},
		{"/logs/?query=syslog&pattern=t.o", false, 200, "two\n"}, {"/logs/?query=app", false, 200, "hello\n"},
		{"/logs/?query=/link", false, 200, "escapes"}, {"/logs/?query=/../secret", false, 400, "no file below"},
		{"/logs/?query=ssh&sinceTime=2026-01-02T15:04:05Z&tailLines=5&boot=-1", false, 200, "journal --utc --no-pager --output=short-precise " +
			"--unit=ssh --since=2026-01-02T15:04:05Z --boot=-1 --lines=5\n"},
		{"/logs/?query=ssh&query=app", false, 200, "hello\n"},
		{"/logs/?query=-x", false, 400, "neither a service"}, {"/logs/?query=a%20b", false, 400, "neither a service"},
		{"/logs/?query=a&query=b&query=c&query=d&query=e", false, 400, "one to 4"}, {"/logs/?query=a&tailLines=100001", false, 400, "tailLines"},
		{"/logs/?query=a&pattern=(", false, 400, "pattern"}, {"/logs/?query=a&sinceTime=now", false, 400, "no time"},
		{"/logs/?query=a&boot=1", false, 400, "boot"}, {"/logs/?query=syslog", true, 403, "node.enableSystemLogQuery"},
	} {
		t.Run(c.path, func(t *testing.T) {
			a := &api{cfg: Config{SystemLogs: dir, SystemLogQuery: !c.off, journalctl: program}}
			u, err := url.Parse(c.path)
			if err != nil {
				t.Fatal(err)
			}
			rec := httptest.NewRecorder()
			if err := a.nodeLogs(rec, &http.Request{Method: "GET", URL: u, Header: http.Header{}}); err != nil {
				fail(rec, err)
			}
			body := rec.Body.String()
			if rec.Code != c.code || !strings.Contains(body, c.want) || strings.Contains(body, "a secret") {
				t.Errorf("%s: %d %q, want %d %q", c.path, rec.Code, body, c.code, c.want)
			}
		})
	}
	rec := httptest.NewRecorder()
	a := &api{}
	if err := a.nodeLogs(rec, &http.Request{URL: &url.URL{Path: "/logs/"}}); err == nil {
		t.Error("logs are shown where none are to be")
	}
}

// TestNodeLogsLong: a question for the last lines of a file does not read the file into memory, however long that is.
func TestNodeLogsLong(t *testing.T) {
	const size = 96 << 20
	root := t.TempDir()
	f, err := os.Create(filepath.Join(root, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil { // a hole: nothing is written
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("\nbefore\nlast\nat the end"), size); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = logQuery{tail: 2, pattern: "t"}.file(t.Context(), os.DirFS(root), "log", &out)
	runtime.ReadMemStats(&after)
	if err != nil || out.String() != "last\nat the end" {
		t.Errorf("%q, %v", out.String(), err)
	}
	if live := after.TotalAlloc - before.TotalAlloc; live > size/4 {
		t.Errorf("%d bytes were allocated", live)
	}
}
