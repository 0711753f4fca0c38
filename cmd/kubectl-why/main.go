// Command kubectl-why is kloop's question why as a program of its own, for kubectl's plugins: it asks any Kubernetes by a kubeconfig alone,
// and reads only. Called as kubectl-gaps it lists everything that is not what it should be.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/kloop-dev/kloop/cli/ask"
)

func main() {
	debug.SetGCPercent(50) // the copy of a large cluster counts more than the time to clear up after reading it
	os.Exit(run(os.Args))
}

// run returns the exit code: 0 when nothing is stuck, 1 for a failure, 2 for wrong usage, 3 when something is stuck.
func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	name := strings.TrimSuffix(filepath.Base(args[0]), filepath.Ext(args[0]))
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	o := ask.Bind(fs)
	fs.Usage = func() {
		fmt.Fprintf(fs.Output(), "usage: %s [flags] [KIND/NAME | KIND NAME | NAME]\n\n", strings.Replace(name, "-", " ", 1))
		fs.PrintDefaults()
	}
	words, err := split(fs, args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err == nil:
		err = o.Check()
	}
	if err != nil || len(words) > 2 || name == "kubectl-gaps" && len(words) > 0 {
		if err != nil {
			fmt.Fprintln(os.Stderr, name+":", err)
		} else {
			fs.Usage()
		}
		return 2
	}
	err = o.Ask(ctx, ask.Streams{Out: os.Stdout, Err: os.Stderr}, words)
	switch {
	case errors.Is(err, ask.ErrStuck):
		return ask.CodeStuck
	case err != nil:
		fmt.Fprintln(os.Stderr, name+":", ask.Escape(err.Error()))
		return 1
	}
	return 0
}

// split reads flags before, between and behind the words, as kubectl does; KIND/NAME are two words.
func split(fs *flag.FlagSet, args []string) (words []string, err error) {
	for {
		if err := fs.Parse(args); err != nil {
			return nil, err
		}
		if fs.NArg() == 0 {
			break
		}
		words, args = append(words, fs.Arg(0)), fs.Args()[1:]
	}
	return ask.Pair(words)
}
