// Package cli implements the command line: one file per command.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/kloop-dev/kloop/apply"
	"github.com/kloop-dev/kloop/cli/ask"
	"github.com/kloop-dev/kloop/strict"
)

// stdio holds the streams that a command reads and writes.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

// errUsage says that the arguments were wrong and the user has been told.
var errUsage = errors.New("wrong usage")

// errStopped says that a signal came before all was ready. That is no failure.
var errStopped = errors.New("stopped before it was ready")

// Main runs the command that args name, or the program whose name kloop was called by, and returns the exit code: 0, 1 for a failure,
// 2 for wrong usage, wrong settings among it.
func Main(args []string) int {
	if code, ok := first(args); ok {
		return code
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	apply.BoundCopies()
	boundComplaints()
	return Run(ctx, os.Stdin, os.Stdout, os.Stderr, args)
}

// Run is Main with the streams of the caller's choice: who embeds kloop has its commands too.
func Run(ctx context.Context, in io.Reader, out, errs io.Writer, args []string) int {
	std := stdio{in, out, errs}
	if c, ok := personality(args[0]); ok {
		return code(std, c, c.run(ctx, std, args[1:]))
	}
	if len(args) < 2 {
		usage(std.err)
		return 2
	}
	word := args[1]
	switch word {
	case "-h", "-help", "--help":
		word = "help"
	case "-v", "-version", "--version":
		word = "version"
	}
	if c, ok := find(word); ok {
		if !c.says.all {
			var done func()
			std, done = keepOn(std)
			defer done()
		}
		return code(std, c, c.run(ctx, std, args[2:]))
	}
	return code(std, command{}, unknown(std, word))
}

// unknown answers a word that is no command, with the command that was probably meant.
func unknown(std stdio, word string) error {
	var known []string
	for _, c := range commands() {
		known = append(known, c.name)
	}
	fmt.Fprintf(std.err, "kloop: there is no command %q%s\nkloop help lists them\n", word, strict.Meant(word, known))
	return errUsage
}

// exe is the suffix of a program's file name.
var exe = map[bool]string{true: ".exe"}[runtime.GOOS == "windows"]

// personality is the program that kloop stands in for when it is called by its name.
func personality(arg0 string) (command, bool) {
	for _, c := range []command{{name: "kube-apiserver", run: apiServer}, {name: "etcd", run: etcdServer}, {name: "kubectl", run: kubectl},
		{name: "kubectl-why", run: why}, {name: "kubectl-gaps", run: gaps}, {name: "kubectl-loops", run: loops},
		{name: "setup-envtest", run: setupEnvtest}} {
		if strings.TrimSuffix(filepath.Base(arg0), exe) == c.name {
			return c, true
		}
	}
	return command{}, false
}

func code(std stdio, c command, err error) int {
	var exit exitError
	var wrong misuse
	var set strict.Wrong
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp), errors.Is(err, errStopped):
		return 0
	case errors.Is(err, errUsage):
		return 2
	case errors.As(err, &exit):
		return int(exit)
	case errors.As(err, &wrong), errors.As(err, &set):
		fmt.Fprintf(std.err, "kloop %s: %s (kloop help %s)\n", c.name, ask.Escape(err.Error()), c.name)
		return 2
	}
	if runs := []string{"up", "server", "node", "controllers"}; errors.Is(err, syscall.ECONNREFUSED) && !slices.Contains(runs, c.name) {
		err = fmt.Errorf("%w: nothing listens there; kloop status says which cluster that is, and how to start it", err)
	}
	err = outOfTime(err)
	fmt.Fprintf(std.err, "kloop %s: %s\n", c.name, ask.Escape(err.Error()))
	return 1
}

// exitError is the exit code of a program that was run in kloop's place.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }
