package gitsource

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/kloop-dev/kloop/internal/eventually"
)

// TestFetchLeavesNothing has a server that never ends its answer: when the fetch is over, so are git and the programs that git started.
func TestFetchLeavesNothing(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("looks in /proc")
	}
	asked, end := make(chan struct{}, 10), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		_ = http.NewResponseController(w).Flush()
		asked <- struct{}{}
		<-end
	}))
	defer srv.Close()
	defer close(end)
	r := repository{dir: filepath.Join(t.TempDir(), "copy")}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if _, err := r.fetch(ctx, Spec{URL: srv.URL + "/repo.git"}, nil); err == nil {
		t.Fatal("a fetch that was cut is no error")
	}
	eventually.Sees(t, time.Minute, "nothing works on the copy", func() (bool, any) { left := of(r.dir); return len(left) == 0, left })
}

// of lists the processes that work on a copy.
func of(dir string) (list []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range files {
		if env, _ := os.ReadFile(f); strings.Contains(string(env), "GIT_DIR="+dir+"\x00") {
			args, _ := os.ReadFile(filepath.Join(filepath.Dir(f), "cmdline"))
			list = append(list, strings.ReplaceAll(string(args), "\x00", " "))
		}
	}
	return list
}
