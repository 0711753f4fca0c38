package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/kloop-dev/kloop/cli/settings"
	"github.com/kloop-dev/kloop/clusters"
	"github.com/kloop-dev/kloop/service"
	"github.com/kloop-dev/kloop/strict"
)

// roles are the words for what a machine is to be, and their units.
var roles = map[string]string{"cluster": service.Cluster, "server": service.Server, "node": service.Node}

// unitOf is the unit that a word means; without a word it is the whole cluster.
func unitOf(words []string) (string, error) {
	if len(words) == 0 {
		return service.Cluster, nil
	}
	if u, ok := roles[words[0]]; ok {
		return u, nil
	}
	meant := strict.Meant(words[0], slices.Collect(maps.Keys(roles)))
	return "", misusef("%q is nothing to install%s: say cluster, server or node", words[0], meant)
}

// install makes this machine run kloop as a service, or takes this program into use in place of the one that runs.
func install(ctx context.Context, std stdio, args []string) error {
	args, extra := cutAt(args, "--")
	fs := flags(std, "install", "[cluster | server | node] [-- flags of kloop up or kloop node]")
	root := fs.String("root", "", "write below this directory, an image of a machine, and start nothing")
	words, err := wordsOf(fs, args, 0, 1)
	if err != nil {
		return err
	}
	s := service.Service{Root: *root, Args: extra}
	if s.Unit, err = unitOf(words); err != nil {
		return err
	}
	switch s.Unit {
	case service.Cluster:
		_, err = meant(std, "up", settings.Up, extra)
	case service.Server:
		_, err = meant(std, "server", settings.Server, extra)
	case service.Node:
		err = meantForNode(std, extra)
	}
	if err != nil {
		return err
	}
	if s.Program, err = ownFile(); err != nil {
		return err
	}
	if s.Root == "" {
		fmt.Fprintf(std.out, "installing %s as the service %s; journalctl -fu %[2]s shows how far it is\n", s.Program, s.Unit)
	}
	if err := s.Install(ctx); err != nil {
		return err
	}
	if s.Root != "" {
		_, err := fmt.Fprintf(std.out, "%s starts with the machine whose files are in %s\n", s.Unit, s.Root)
		return err
	}
	_, err = fmt.Fprintf(std.out,
		"%s is ready, and starts with this machine\nits log: journalctl -u %[1]s; its settings: /etc/kloop/kloop.yaml\n", s.Unit)
	return err
}

// ownFile is the file of this program.
func ownFile() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(self)
}

// uninstall takes the service away again.
func uninstall(ctx context.Context, std stdio, args []string) error {
	fs := flags(std, "uninstall", "[cluster | server | node]")
	root := fs.String("root", "", "work below this directory, an image of a machine")
	data := fs.Bool("data", false, "remove containers, networks and data as well, as kloop reset does")
	yes := fs.Bool("yes", false, "do not ask")
	words, err := wordsOf(fs, args, 0, 1)
	if err != nil {
		return err
	}
	if *data && *root != "" {
		return misuse("--data is of this machine: it goes without --root")
	}
	s := service.Service{Root: *root}
	if s.Unit, err = unitOf(words); err != nil {
		return err
	}
	if s.Program, err = ownFile(); err != nil {
		return err
	}
	dir := s.DataDir()
	if *data && !*yes && !agreed(std, dir, false) {
		return errors.New("nothing was done; --yes does not ask")
	}
	if err := s.Uninstall(ctx); err != nil {
		return err
	}
	if *data {
		return wipe(std, dir)
	}
	fmt.Fprintf(std.out, "%s is no service of this machine any more; its data is in %s, and --data would have removed that\n", s.Unit, dir)
	if n := clusters.RunningPods(dir); n > 0 {
		fmt.Fprintf(std.out, "pods that go on running: %d\n", n)
	}
	return nil
}

// wipe removes a data directory with all that was made for it. A dynamic user's is a link.
func wipe(std stdio, dir string) error {
	real, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	left, err := clusters.Reset(real, false)
	for _, l := range left {
		fmt.Fprintln(std.err, l)
	}
	if err != nil {
		return err
	}
	if real != dir {
		if err := os.Remove(dir); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(std.out, "nothing of kloop in %s is left\n", dir)
	return err
}
