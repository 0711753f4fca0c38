package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestErrorsSayWhatToDo holds every command to it: what is wrong, and what to do next.
func TestErrorsSayWhatToDo(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	none := filepath.Join(t.TempDir(), "none")
	tests := []struct{ line, wants string }{
		{"controllers", "--kubeconfig FILE"},
		{"node", "--kubeconfig FILE"},
		{"kubeconfig", "--user NAME or --node NAME"},
		{"kubeconfig --user u --data-dir " + none, "kloop up"},
		{"image load --data-dir " + none + " x", "start the node first"},
		{"restore --data-dir " + none + "2 " + none, "no such file"},
		{"up --store paper", "use etcd or memory"},
		{"up --store memory --node perhaps", "use auto, real or none"},
		{"up --store memory --etcd-servers http://x", "exclude each other"},
		{"server --store memory --listen " + taken.Addr().String(), "choose another address with --listen"},
		{"server --listen 127.0.0.1:0 --data-dir " + file + "/x", "--data-dir"},
	}
	for _, tt := range tests {
		t.Run(tt.line, func(t *testing.T) {
			err := command1(t.Context(), t, tt.line, &bytes.Buffer{})
			if err == nil || !strings.Contains(err.Error(), tt.wants) {
				t.Errorf("got %v, want %q in it", err, tt.wants)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(none, "pki")); !os.IsNotExist(err) {
		t.Error("asking for a kubeconfig has made keys")
	}
}

// The kubeconfig of the person who starts a node is not the node's: with it, it would act as that person.
func TestNodeTakesNoKubeconfigOfOthers(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "admin.kubeconfig"))
	var out bytes.Buffer
	err := command1(t.Context(), t, "node --container-runtime-endpoint "+filepath.Join(t.TempDir(), "socket")+" --data-dir "+t.TempDir(), &out)
	if err == nil || strings.Contains(err.Error(), "read the kubeconfig") {
		t.Errorf("got %v", err)
	}
}

func TestUsage(t *testing.T) {
	for _, line := range []string{"up --bogus", "version extra", "follow", "image", "image load", "restore", "why a b c",
		"why pod --to x", "why -o xml",
		"why --nope", "trace", "trace pod", "member x", "backup", "envtest a b"} {
		if err := command1(t.Context(), t, line, &bytes.Buffer{}); !errors.Is(err, errUsage) {
			t.Errorf("%s: got %v, want wrong usage", line, err)
		}
	}
}

// An empty word, as a script's variable that is not set leaves it, is wrong usage: it means neither all objects of a kind nor none.
func TestEmptyWord(t *testing.T) {
	for _, words := range [][]string{
		{"why", ""}, {"why", "deploy/"}, {"why", "/web"}, {"why", "deploy", ""}, {"trace", "deploy/"}, {"diff", "deploy/"}, {"diff", ""},
		{"undo", "deploy/"}, {"undo", "deploy", "", "--yes"}, {"undo", "/", "--since", "1h"}, {"follow", ""}, {"follow", "deploy/"},
		{"plan", "lose", "zone", ""}, {"plan", "drain", ""}, {"member", "remove", ""}, {"backup", ""}, {"restore", ""},
	} {
		t.Run(strings.Join(words, " "), func(t *testing.T) {
			var out, errs bytes.Buffer
			if code := Run(t.Context(), nil, &out, &errs, append([]string{"kloop"}, words...)); code != 2 ||
				!strings.Contains(errs.String(), "empty") {
				t.Errorf("it ends with %d and says %s%s", code, &out, &errs)
			}
		})
	}
}

// Help has the usage and the flags as they are typed, and a word that is nearly a command is answered with that command.
func TestHelp(t *testing.T) {
	var out bytes.Buffer
	if code := Run(t.Context(), nil, &out, &out, []string{"kloop", "trace", "-h"}); code != 0 {
		t.Errorf("help ends with %d", code)
	}
	for _, want := range []string{"usage: kloop trace [flags] KIND/NAME\n", "  --follow ", "  -A "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("help lacks %q: %s", want, &out)
		}
	}
	out.Reset()
	if code := Run(t.Context(), nil, &out, &out, []string{"kloop", "wy"}); code != 2 || !strings.Contains(out.String(),
		"did you mean why?") {
		t.Errorf("it ends with %d and says %s", code, &out)
	}
}

// TestUpWithoutRuntime is a machine without containerd: auto says so and goes on, real says what to do.
func TestUpWithoutRuntime(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	up := "up --store memory --listen 127.0.0.1:0 --data-dir " + t.TempDir() + " --node "
	ctx, stop := context.WithCancel(t.Context())
	out := &watcher{text: "this machine is not a node", then: stop}
	if err := command1(ctx, t, up+"auto", out); err != nil {
		t.Errorf("auto: %v", err)
	}
	if got := out.String(); !strings.Contains(got, "--sim-nodes") {
		t.Errorf("auto says %q", got)
	}
	if err := command1(t.Context(), t, up+"real", out); err == nil || !strings.Contains(err.Error(), "--sim-nodes") {
		t.Errorf("real: %v", err)
	}
}

func TestTwoOnOneDirectory(t *testing.T) {
	line := "server --listen 127.0.0.1:0 --data-dir " + t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	out := &watcher{text: "is ready", then: sync.OnceFunc(func() { close(ready) })}
	go func() { done <- serve(ctx, stdio{nil, out, &bytes.Buffer{}}, strings.Fields(line)[1:]) }()
	<-ready
	if err := command1(t.Context(), t, line, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(),
		"another directory with --data-dir") {
		t.Errorf("the second: %v", err)
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("the first: %v", err)
	}
}

// watcher is a writer that calls then when it has been told the text.
type watcher struct {
	bytes.Buffer
	text string
	then func()
}

func (w *watcher) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if strings.Contains(w.String(), w.text) {
		w.then()
	}
	return n, err
}

// command1 runs one command line, for ten minutes at most.
func command1(ctx context.Context, t *testing.T, line string, out io.Writer) error {
	t.Helper()
	ctx, stop := context.WithTimeout(ctx, 10*time.Minute)
	defer stop()
	words := strings.Fields(line)
	for _, c := range commands() {
		if c.name == words[0] {
			return c.run(ctx, stdio{strings.NewReader(""), out, &bytes.Buffer{}}, words[1:])
		}
	}
	t.Fatalf("there is no command %s", words[0])
	return nil
}
