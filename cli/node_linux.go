package cli

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kloop-dev/kloop/cli/settings"
	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/clusters"
	"github.com/kloop-dev/kloop/machine"
	"github.com/kloop-dev/kloop/node/runtime"
)

// A nodeCommand holds what kloop node was told.
type nodeCommand struct {
	machine.Joined
	options                    settings.Options
	sheet                      *settings.Sheet
	config, dir, pods, address string
	explain                    bool
}

// read takes the flags of kloop node and the settings beside them. It changes nothing on the machine.
func (n *nodeCommand) read(fs *flag.FlagSet, args []string) error {
	fs.StringVar(&n.config, "kubeconfig", "",
		"how to reach the server, as system:node:NAME or with a bootstrap token (default: as when it joined)")
	fs.StringVar(&n.Join.Server, "server", "",
		"join the cluster of this server, https://host:port; kloop token --node prints this and the next two, which a node that has joined "+
			"does not need again")
	fs.StringVar(&n.Join.Token, "token", "", "bootstrap token to join with")
	fs.Var((*words)(&n.Join.Hashes), "ca-hash", "hash of the public key of the cluster's authority, sha256:HEX")
	fs.StringVar(&n.dir, "data-dir", "/var/lib/kloop-node", "directory of the runtime, volumes and the node's certificate")
	fs.StringVar(&n.pods, "pod-cidr", "",
		"addresses of pods, one range of each family; the Node registers with them (default: the cluster gives the node a range)")
	fs.StringVar(&n.address, "address", "", "address of the node, or one of each family: A,B (default: the first of the machine)")
	n.options = settings.Defaults()
	n.sheet = settings.New(&n.options)
	file := n.sheet.Bind(fs, settings.Node)
	fs.StringVar(&n.Name, "name", "", "name of the node (default: the host name)")
	fs.StringVar(&n.StaticDir, "manifests", "", "directory of static pods")
	fs.IntVar(&n.Port, "port", 10250, "port of the agent's own API")
	fs.DurationVar(&n.Beat, "heartbeat", 10*time.Second, "how often to tell the server that the node lives; at most a quarter of its grace")
	fs.BoolVar(&n.Proxy, "proxy", true, "program the cluster's services")
	fs.BoolVar(&n.explain, "explain", false,
		"only print what the node would do for the cluster's services and pods; needs --kubeconfig, any user's, and no rights here")
	if err := parse(fs, args); err != nil {
		return err
	}
	if err := fill(n.sheet, &n.options, *file); err != nil {
		return err
	}
	joinedBy(&n.Joined, &n.options)
	if err := n.canJoin(); err != nil {
		return err
	}
	return nameNode(&n.Joined, n.pods, n.address)
}

// canJoin says what the node lacks to join the server's cluster. One that has joined it needs nothing.
func (n *nodeCommand) canJoin() error {
	if n.Join.Server == "" || n.Join.Token != "" && len(n.Join.Hashes) > 0 {
		return nil
	}
	const needs = "--server needs --token and --ca-hash: kloop token --node prints them on a server's machine"
	switch known, err := machine.JoinedTo(n.keys()); {
	case err != nil:
		return advise(err)
	case known == "":
		return misuse(needs)
	case known != n.Join.Server:
		return misusef("%s (the node in %s has joined %s)", needs, n.dir, known)
	}
	return nil
}

// keys is the directory of the node's certificates.
func (n *nodeCommand) keys() string { return filepath.Join(n.dir, "pki") }

// meantForNode says what in flags for kloop node can't be meant, before they are handed on to it.
func meantForNode(std stdio, args []string) error {
	return new(nodeCommand).read(flags(std, "node", ""), args)
}

// nodeCmd makes this machine, or this network namespace, a node of a cluster elsewhere.
func nodeCmd(ctx context.Context, std stdio, args []string) error {
	var n nodeCommand
	err := n.read(flags(std, "node", ""), args)
	if err != nil {
		return err
	}
	if n.Log, err = logger(std, n.options.LogLevel, n.options.LogFormat); err != nil {
		return err
	}
	heed(ctx, std, n.sheet)
	if n.Join.Server == "" && n.config != "" {
		if n.Rest, err = connection(n.config); err != nil {
			return err
		}
	}
	if n.explain {
		return explainNode(ctx, n.Joined, std)
	}
	n.Keys = n.keys()
	if !n.options.NoLocalStorage {
		n.Storage = filepath.Join(n.dir, "storage")
	}
	n.Dir, n.Former = n.options.RootDir, filepath.Join(n.dir, "node")
	n.Runtime.Socket, n.Runtime.Dir, n.Runtime.Log = n.options.RuntimeSocket, filepath.Join(n.dir, "runtime"), n.Log
	return runNode(ctx, std, n.Joined, n.options.InstallRuntime && n.Runtime.Socket == "")
}

// joinedBy gives a node the settings that it shares with a server's own.
func joinedBy(n *machine.Joined, o *settings.Options) {
	n.Services, n.ProxyMode, n.ProxyScheduler, n.NodePortAddresses = o.ServiceCIDRs, o.ProxyMode, o.ProxyScheduler, o.NodePortAddresses
	n.IPVS, n.DNS, n.NoPolicies, n.Network, n.Pressure = o.IPVS, o.DNS, o.NoPolicies, o.Network, o.Pressure
	n.Resources, n.Images, n.Shutdown, n.Topology, n.LogQuery = o.NodeResources, o.NodeImages, o.NodeShutdown, o.NodeTopology,
		o.NodeLogQuery
}

// installRuntime installs what a node needs, if that is wanted and something of it is missing.
func installRuntime(ctx context.Context, std stdio, wanted bool) error {
	if !wanted || runtime.Available(runtime.Config{}) == nil {
		return nil
	}
	return runtime.Install(ctx, std.err)
}

// runNode runs the node until ctx ends. install says that what it lacks is to be installed.
func runNode(ctx context.Context, std stdio, n machine.Joined, install bool) error {
	if err := installRuntime(ctx, std, install); err != nil {
		return err
	}
	if err := runtime.Available(n.Runtime); err != nil {
		return err
	}
	dir := filepath.Dir(n.Former)
	release, err := clusters.Claim(dir)
	if err != nil {
		return advise(err)
	}
	defer release()
	if err := cluster.CheckFormat(dir); err != nil {
		return err
	}
	if err := cluster.NoteFormat(dir); err != nil {
		return err
	}
	err = advise(machine.Run(ctx, n, func() {
		fmt.Fprintf(std.out, "node %s is ready\n", n.Name)
		tellManager(ctx, n.Log, runs)
	}))
	sayLeft(std, dir)
	return err
}

// explainNode prints what the node would do.
func explainNode(ctx context.Context, n machine.Joined, std stdio) error {
	if n.Rest == nil {
		_, err := connection("")
		return err
	}
	return advise(machine.Explain(ctx, n, 30*time.Second, std.out))
}

// nameNode fills the node's name and addresses.
func nameNode(n *machine.Joined, pods, address string) (err error) {
	if n.Name == "" {
		if n.Name, err = os.Hostname(); err != nil {
			return err
		}
		n.Name = strings.ToLower(n.Name)
	}
	if pods != "" {
		for text := range strings.SplitSeq(pods, ",") {
			p, err := netip.ParsePrefix(text)
			if err != nil {
				return fmt.Errorf("read --pod-cidr: %w", err)
			}
			n.PodCIDRs = append(n.PodCIDRs, p.Masked())
		}
	}
	if address == "" {
		return nil
	}
	first, second, two := strings.Cut(address, ",")
	if n.Address, err = netip.ParseAddr(first); err == nil && two {
		n.Second, err = netip.ParseAddr(second)
	}
	if err != nil {
		return fmt.Errorf("read --address: %w", err)
	}
	if two && n.Address.Is4() == n.Second.Is4() {
		return misusef("--address %s: name one of IPv4 and one of IPv6", address)
	}
	return nil
}

// thisMachine becomes the node of a cluster in this process.
var thisMachine = machine.Here
