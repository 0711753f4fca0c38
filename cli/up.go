package cli

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/kloop-dev/kloop/cli/settings"
	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/clusters"
	"github.com/kloop-dev/kloop/kit/whole"
)

// up runs a whole cluster.
func up(ctx context.Context, std stdio, args []string) error {
	o := settings.Defaults()
	s, err := sheet(flags(std, "up", ""), settings.Up, &o, args)
	if err != nil {
		return err
	}
	heed(ctx, std, s)
	return run(ctx, std, s, &o)
}

// serve runs the front door alone: what a file says of loops and nodes is for others.
func serve(ctx context.Context, std stdio, args []string) error {
	o := settings.Defaults()
	s, err := sheet(flags(std, "server", ""), settings.Server, &o, args)
	if err != nil {
		return err
	}
	heed(ctx, std, s)
	o.NoLoops, o.Node, o.SimNodes = true, cluster.NodeNone, 0
	return run(ctx, std, s, &o)
}

// sheet reads the flags of a command, the file that they name, and the environment.
func sheet(fs *flag.FlagSet, command settings.Commands, o *settings.Options, args []string) (*settings.Sheet, error) {
	s := settings.New(o)
	file := s.Bind(fs, command)
	if err := parse(fs, args); err != nil {
		return nil, err
	}
	if err := fill(s, o, *file); err != nil {
		return nil, err
	}
	check := func() error {
		c := o.Config
		c.Kit = whole.Kit()
		return c.CheckFiles()
	}
	return s, s.Blame(check(), check)
}

// fill takes what was set, and says what of it can't be meant.
func fill(s *settings.Sheet, o *settings.Options, file string) error {
	if err := s.Fill(cmp.Or(file, os.Getenv("KLOOP_CONFIG")), lookupEnv); err != nil {
		return err
	}
	check := func() error {
		c := o.Config
		c.Machine, c.Kit = thisMachine, whole.Kit()
		return c.Check()
	}
	return s.Blame(check(), check)
}

// meant says what in flags for another command can't be meant, before they are handed on to it.
func meant(std stdio, name string, command settings.Commands, args []string) (*settings.Sheet, error) {
	o := settings.Defaults()
	return sheet(flags(std, name, ""), command, &o, args)
}

// configCmd shows what is set, and by whom.
func configCmd(_ context.Context, std stdio, args []string) error {
	if len(args) == 0 || args[0] != "show" {
		return needSub(std, "config", args)
	}
	o := settings.Defaults()
	fs := flags(std, "config show", "")
	s, err := sheet(fs, settings.Up, &o, args[1:])
	if err != nil {
		return err
	}
	list, err := s.Effects()
	if err != nil {
		return err
	}
	return answer(std, fs, items(list), s.Show)
}

// run starts the cluster, says so, and waits for its end.
func run(ctx context.Context, std stdio, s *settings.Sheet, o *settings.Options) error {
	began := time.Now()
	if dir := o.DataDir; dir != "" {
		release, err := clusters.Claim(dir)
		if err != nil {
			return advise(err)
		}
		defer release()
	}
	c, err := begin(ctx, std, s, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "kloop is ready at %s after %d ms\n", c.URL(), time.Since(began).Milliseconds())
	if path := c.KubeconfigPath(); path != "" {
		fmt.Fprintf(std.out, "export KUBECONFIG=%s\n", path)
	}
	if err := c.Nodeless(); err != nil {
		fmt.Fprintf(std.out, "this machine is not a node: %v\n", err)
	}
	told, stop := context.WithCancel(ctx)
	tellManager(told, slog.Default(), serves(c))
	err = c.Wait()
	stop()
	if dir := cmp.Or(o.NodeDir, o.DataDir); dir != "" {
		sayLeft(std, dir)
	}
	return advise(err)
}

// begin starts the cluster that the options ask for.
func begin(ctx context.Context, std stdio, s *settings.Sheet, o *settings.Options) (*cluster.Cluster, error) {
	var err error
	if o.Log, err = logger(std, o.LogLevel, o.LogFormat); err != nil {
		return nil, err
	}
	if o.Store == cluster.StoreMemory {
		o.NodeDir = o.DataDir // images stay
		o.DataDir = ""        // nothing of a throw-away cluster should outlive it
	}
	if o.Pprof != "" {
		if err := servePprof(ctx, o.Pprof, slog.Default()); err != nil {
			return nil, err
		}
	}
	memory := trim(ctx)
	o.Relieved, o.Shed = memory.soon, memory.now
	o.Flags, o.Verbosity = settings.New(o).Flags(), verbose
	o.Machine, o.Kit = thisMachine, whole.Kit()
	if o.Node != cluster.NodeNone {
		if err := installRuntime(ctx, std, o.InstallRuntime && o.RuntimeSocket == ""); err != nil {
			return nil, err
		}
	}
	c, err := cluster.Start(ctx, o.Config)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, errStopped
	case err == nil:
		memory.after(c.Compact)
		memory.started()
	}
	return c, advise(s.Blame(err, nil))
}
