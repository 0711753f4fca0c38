package script

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kit/whole"
	"github.com/kloop-dev/kloop/test/need"
)

// TestKubectl runs every transcript. It needs a kubectl: the one beside kloop (make build) or one on the path.
func TestKubectl(t *testing.T) {
	kubectl := findKubectl()
	if kubectl == "" {
		need.Have(t, need.Kubectl, errors.New("make bin/kubectl builds one"))
	}
	testscript.Run(t, testscript.Params{
		Dir:             "testdata",
		Setup:           func(env *testscript.Env) error { return setup(env, kubectl) },
		ContinueOnError: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"kubectl": func(ts *testscript.TestScript, neg bool, args []string) { run(ts, neg, kubectl, args) },
			"until":   func(ts *testscript.TestScript, neg bool, args []string) { until(ts, neg, kubectl, args) },
			"sees":    func(ts *testscript.TestScript, neg bool, args []string) { sees(ts, neg, kubectl, args) },
		},
	})
}

func findKubectl() string {
	if path, err := filepath.Abs("../../bin/kubectl"); err == nil {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	path, err := exec.LookPath("kubectl")
	if err != nil {
		return ""
	}
	return path
}

// setup starts the script's own cluster and points kubectl at it.
func setup(env *testscript.Env, kubectl string) error {
	config := filepath.Join(env.WorkDir, "kubeconfig")
	c, err := cluster.Start(context.Background(), cluster.Config{Kit: whole.Kit(),
		SimNodes: 2, Kubeconfig: config, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	env.Defer(func() {
		if err := c.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the cluster:", err)
		}
	})
	env.Setenv("KUBECONFIG", config)
	env.Setenv("HOME", env.WorkDir)
	env.Setenv("PATH", filepath.Dir(kubectl)+":"+os.Getenv("PATH"))
	env.Setenv("SERVER", c.URL())
	return nil
}

func run(ts *testscript.TestScript, neg bool, kubectl string, args []string) {
	switch err := ts.Exec(kubectl, args...); {
	case err == nil && neg:
		ts.Fatalf("kubectl %q succeeded", args)
	case err != nil && !neg:
		ts.Fatalf("kubectl %q: %v", args, err)
	}
}

// patience is how long anything may take on a machine with much else to do.
const patience = 10 * time.Minute

// until repeats a kubectl command until it prints the first argument: for what the loops do in their own time.
func until(ts *testscript.TestScript, neg bool, kubectl string, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until TEXT ARGS")
	}
	for end := time.Now().Add(patience); ; {
		err := ts.Exec(kubectl, args[1:]...)
		out := ts.ReadFile("stdout") + ts.ReadFile("stderr")
		if err == nil && strings.Contains(out, args[0]) {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("kubectl %q never printed %q: %v", args[1:], args[0], err)
		}
	}
}

// sees runs a kubectl command that does not end, until it prints the first argument.
func sees(ts *testscript.TestScript, neg bool, kubectl string, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: sees TEXT ARGS")
	}
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	cmd := exec.CommandContext(ctx, kubectl, args[1:]...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+ts.Getenv("KUBECONFIG"), "HOME="+ts.Getenv("HOME"))
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	found := false
	for lines := bufio.NewScanner(out); !found && lines.Scan(); {
		found = strings.Contains(lines.Text(), args[0])
	}
	stop()
	_ = cmd.Wait() // it was killed
	if !found {
		ts.Fatalf("kubectl %q never printed %q", args[1:], args[0])
	}
}
