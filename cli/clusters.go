package cli

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kloop-dev/kloop/cli/settings"
	"github.com/kloop-dev/kloop/clusters"
	"github.com/kloop-dev/kloop/notify"
)

// create makes a named cluster, starts it, and puts its context into the kubeconfig.
func create(ctx context.Context, std stdio, args []string) error {
	args, extra := cutAt(args, "--")
	fs := flags(std, "create", "[NAME] [-- flags of kloop up]")
	c := &clusters.Cluster{Args: extra}
	fs.IntVar(&c.Nodes, "nodes", 1, "real nodes, each in a network namespace of this machine; needs root")
	sim := fs.Int("sim-nodes", 0, "simulated nodes in place of real ones; needs no root")
	fs.Var((*portList)(&c.Ports), "ports", "[ADDRESS:]PORT:NODEPORT[@NODE]: a TCP port of this machine that leads to a host port or node port")
	path := fs.String("kubeconfig", "", "kubeconfig to put the context into (default: the first of $KUBECONFIG, or ~/.kube/config)")
	words, err := wordsOf(fs, args, 0, 1)
	if err != nil {
		return err
	}
	if c.Name = "dev"; len(words) > 0 {
		c.Name = words[0]
	}
	if given(fs, "sim-nodes") {
		if given(fs, "nodes") {
			return misuse("--nodes and --sim-nodes exclude each other")
		}
		c.Simulated, c.Nodes = true, *sim
	}
	if err := handOn(std, c); err != nil {
		return err
	}
	keys, err := kubeconfigPath(*path)
	if err != nil {
		return err
	}
	if err := clusters.Editable(keys); err != nil {
		return err
	}
	root, err := clusters.Default()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := root.Create(c); err != nil {
		return err
	}
	if err := startCluster(ctx, std, c); err != nil {
		return errors.Join(err, c.Delete(context.WithoutCancel(ctx), std.err))
	}
	if err := c.Merge(keys); err != nil {
		return fmt.Errorf("cluster %s runs, but its context is nowhere (kloop delete %s removes it; its own kubeconfig is %s): %w",
			c.Name, c.Name, c.Admin(), err)
	}
	sayCreated(std, c, time.Since(began), keys)
	return nil
}

func sayCreated(std stdio, c *clusters.Cluster, took time.Duration, keys string) {
	fmt.Fprintf(std.out, "cluster %s is ready after %d ms: %s, %s\n", c.Name, took.Milliseconds(), nodesOf(c), c.Server())
	fmt.Fprintf(std.out, "kubectl speaks to it: context %s in %s\n", c.Context(), keys)
	fmt.Fprintf(std.out, "stop it: kloop stop %s    remove it: kloop delete %s\n", c.Name, c.Name)
}

// handOn reads the flags of kloop up that a cluster was given, and notes which of them its other nodes have as well.
func handOn(std stdio, c *clusters.Cluster) error {
	set, err := meant(std, "up", settings.Up, c.Args)
	if err != nil || len(c.Args) == 0 {
		return err
	}
	c.NodeArgs = set.Shared(settings.Node)
	c.From, err = os.Getwd()
	return err
}

// cutAt are the words before and behind a word.
func cutAt(args []string, at string) (before, behind []string) {
	for i, a := range args {
		if a == at {
			return args[:i], args[i+1:]
		}
	}
	return args, nil
}

func given(fs *flag.FlagSet, name string) (yes bool) {
	fs.Visit(func(f *flag.Flag) { yes = yes || f.Name == name })
	return yes
}

func kubeconfigPath(path string) (string, error) {
	if path != "" {
		return path, nil
	}
	return clusters.Keys()
}

// portList is a flag that may be given several times, or once with commas.
type portList []clusters.Port

func (l *portList) String() string { return "" }

func (l *portList) Set(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		p, err := clusters.ParsePort(part)
		if err != nil {
			return err
		}
		*l = append(*l, p)
	}
	return nil
}

func nodesOf(c *clusters.Cluster) string {
	kind := "node"
	if c.Simulated {
		kind = "simulated node"
	}
	if c.Nodes != 1 {
		kind += "s"
	}
	return fmt.Sprintf("%d %s", c.Nodes, kind)
}

func startCluster(ctx context.Context, std stdio, c *clusters.Cluster) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	if err := c.Start(ctx, program, func(s string) { fmt.Fprintf(std.err, "%s: %s\n", c.Name, s) }); err != nil {
		return err
	}
	if err := c.Refresh(); err != nil { // a certificate may have been about to expire
		return err
	}
	return awaitNodes(ctx, std, c)
}

// nodesPatience bounds the wait for nodes; a cluster whose nodes take longer runs all the same.
const nodesPatience = 30 * time.Second

// awaitNodes waits until all nodes of a cluster are ready, so that what comes next on a command line finds them.
func awaitNodes(ctx context.Context, std stdio, c *clusters.Cluster) error {
	a, err := askerOf(c)
	if err != nil {
		return err
	}
	ready := 0
	for end := time.Now().Add(nodesPatience); time.Now().Before(end); {
		if ready, _, err = readyNodes(ctx, a); err == nil && ready >= c.Nodes {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
	if err != nil {
		return fmt.Errorf("ask for the nodes of cluster %s: %w", c.Name, err)
	}
	fmt.Fprintf(std.err, "%s: %d of %d nodes are ready; kloop why tells what the others wait for\n", c.Name, ready, c.Nodes)
	return nil
}

const noClusters = "there are no clusters; kloop create NAME makes one"

// pick returns the cluster of a word; without one the only cluster that there is.
func pick(words []string) (*clusters.Cluster, error) {
	root, err := clusters.Default()
	if err != nil {
		return nil, err
	}
	if len(words) > 0 {
		return root.Get(words[0])
	}
	list, err := root.List()
	switch {
	case err != nil:
		return nil, err
	case len(list) == 0:
		return nil, errors.New(noClusters)
	case len(list) > 1:
		return nil, errors.New("there are several clusters: say which one; kloop list shows them")
	}
	return list[0], nil
}

// start starts a named cluster, or supervises it in the foreground, as a service does.
func start(ctx context.Context, std stdio, args []string) error {
	fs := flags(std, "start", "[NAME]")
	foreground := fs.Bool("foreground", false, "stay, and end the cluster's processes when this one ends: for a service manager")
	words, err := wordsOf(fs, args, 0, 1)
	if err != nil {
		return err
	}
	c, err := pick(words)
	if err != nil {
		return err
	}
	if *foreground {
		return supervise(ctx, std, c)
	}
	if c.Running() {
		fmt.Fprintf(std.out, "cluster %s runs already\n", c.Name)
		return nil
	}
	began := time.Now()
	if err := startCluster(ctx, std, c); err != nil {
		return err
	}
	fmt.Fprintf(std.out, "cluster %s is ready after %d ms\n", c.Name, time.Since(began).Milliseconds())
	return nil
}

func supervise(ctx context.Context, std stdio, c *clusters.Cluster) error {
	log, err := logger(std, "info", logText)
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	return c.Supervise(ctx, program, log, func() {
		log.Info("the cluster is ready", "cluster", c.Name, "notified", notify.Send(notify.Ready) == nil)
	})
}

// stop ends a named cluster's processes and containers; its data stays.
func stopCmd(ctx context.Context, std stdio, args []string) error {
	words, err := wordsOf(flags(std, "stop", "[NAME]"), args, 0, 1)
	if err != nil {
		return err
	}
	c, err := pick(words)
	if err != nil {
		return err
	}
	if err := c.Stop(ctx, std.err); err != nil {
		return err
	}
	_, err = fmt.Fprintf(std.out, "cluster %s is stopped, with its containers; its data stays: kloop start %s\n", c.Name, c.Name)
	return err
}

// deleteCmd removes named clusters with all that belongs to them.
func deleteCmd(ctx context.Context, std stdio, args []string) error {
	fs := flags(std, "delete", "NAME… | --all")
	all := fs.Bool("all", false, "every cluster of this user")
	words, err := wordsOf(fs, args, 0, 256)
	if err != nil {
		return err
	}
	root, err := clusters.Default()
	if err != nil {
		return err
	}
	if (len(words) > 0) == *all {
		return misused(fs)
	}
	var list []*clusters.Cluster
	if *all {
		if list, err = root.List(); err != nil {
			return err
		}
		if len(list) == 0 {
			fmt.Fprintln(std.out, noClusters)
		}
	}
	for _, w := range words {
		c, err := root.Get(w)
		if err != nil {
			return err
		}
		list = append(list, c)
	}
	for _, c := range list {
		if err := c.Delete(ctx, std.err); err != nil {
			return fmt.Errorf("delete cluster %s: %w", c.Name, err)
		}
		fmt.Fprintf(std.out, "cluster %s is deleted\n", c.Name)
	}
	return nil
}

// list shows the clusters of this machine.
func list(_ context.Context, std stdio, args []string) error {
	fs := flags(std, "list", "")
	if err := parse(fs, args); err != nil {
		return err
	}
	root, err := clusters.Default()
	if err != nil {
		return err
	}
	all, bad := root.List()
	lines := listed(all)
	return errors.Join(answer(std, fs, items(lines), func(w io.Writer) error { return printClusters(w, lines) }), bad)
}

func printClusters(out io.Writer, list []listing) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(out, noClusters)
		return err
	}
	w := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	fmt.Fprintln(w, "NAME\tSTATE\tNODES\tSERVER\tCONTEXT\tPORTS\tAGE")
	for _, l := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.Name, l.State, l.words, l.Server, l.Context, cmp.Or(strings.Join(l.Ports, ","), "-"),
			duration.HumanDuration(time.Since(l.Created)))
	}
	return w.Flush()
}

// A listing is a line of kloop list.
type listing struct {
	Name    string    `json:"name"`
	State   string    `json:"state"` // running or stopped
	Nodes   int       `json:"nodes"`
	Sim     bool      `json:"simulated"`
	Server  string    `json:"server"`
	Context string    `json:"context"`
	Ports   []string  `json:"ports,omitempty"`
	Created time.Time `json:"created"`
	words   string    // for the nodes
}

func listed(all []*clusters.Cluster) []listing {
	var list []listing
	for _, c := range all {
		l := listing{Name: c.Name, State: "stopped", Nodes: c.Nodes, Sim: c.Simulated, words: nodesOf(c),
			Server: c.Server(), Context: c.Context(), Created: c.Created}
		if c.Running() {
			l.State = "running"
		}
		for _, p := range c.Ports {
			l.Ports = append(l.Ports, p.String())
		}
		list = append(list, l)
	}
	return list
}
