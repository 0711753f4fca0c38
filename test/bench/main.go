// Command bench measures a cluster: any cluster, reached by kubeconfig, or kloops of its own that it starts one by
// one on a temporary directory and a free port of the loopback address.
//
//	bench --kubeconfig FILE [--pid N,N…] [--run get,list]    a cluster that runs
//	bench --kloop bin/kloop [--run ready,idle,…]             fresh ones
//
// It prints rates, latency percentiles, and the CPU seconds and memory of the server's processes, beside what
// upstream needs on two cores and what kloop means to reach. It judges nothing: figures depend on the machine and
// on what else runs on it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"
)

// options holds the command line's values.
type options struct {
	kubeconfig, kloop, only, stores, profiles string
	why                                       string
	pids                                      []int
	http2                                     bool
	idle                                      time.Duration
	runs, nodes, replicas, pods, watchers     int
	agents, stormObjects, stormWatches        int
	pair                                      string
	pairs, bursts                             int
	burstOnly                                 bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	do := func() error { return run(ctx, os.Args[1:]) }
	if slices.Equal(os.Args[1:], []string{floorArg}) {
		do = floorMain
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	rep := &report{}
	fmt.Printf("load when it began: %s\n", load())
	if o.kloop != "" {
		err = ownClusters(ctx, o, rep)
	} else {
		err = givenCluster(ctx, o, rep)
	}
	rep.table(os.Stdout)
	pairTable(os.Stdout, o.pair, rep.pairs)
	fmt.Printf("load when it ended: %s\n", load())
	return err
}

func parse(args []string) (*options, error) {
	o := &options{}
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "measure this cluster")
	fs.StringVar(&o.kloop, "kloop", "", "start and measure this kloop")
	fs.StringVar(&o.only, "run", "", "only these, with commas between them: "+strings.Join(names(), ","))
	fs.StringVar(&o.stores, "stores", "etcd,memory", "stores of own kloops")
	fs.StringVar(&o.profiles, "profiles", "", "directory for a CPU profile of each measurement (own kloops only)")
	fs.BoolVar(&o.http2, "http2", false, "speak HTTP/2 as client-go does, instead of a lean HTTP/1.1")
	fs.DurationVar(&o.idle, "idle", 20*time.Second, "how long to watch an idle server")
	fs.IntVar(&o.bursts, "bursts", 3, "how many times to start a hundred pods at once")
	fs.BoolVar(&o.burstOnly, "burst-only", false, "of real pods, measure only those that start at once")
	fs.IntVar(&o.runs, "starts", 5, "how many cold starts")
	fs.IntVar(&o.nodes, "sim-nodes", 100, "simulated nodes of own kloops, for deployment and namespace")
	fs.IntVar(&o.replicas, "replicas", 5000, "replicas of the deployment")
	fs.IntVar(&o.pods, "pods", 10_000, "how many pods to list")
	fs.StringVar(&o.why, "why", "bin/why", "the program kubectl-why; scripts/bench makes it")
	fs.IntVar(&o.watchers, "watchers", 1000, "how many watchers")
	fs.IntVar(&o.agents, "agents", 5000, "how many nodes with clients of their own, for nodes")
	fs.IntVar(&o.stormObjects, "storm-objects", 100_000, "how many objects are made and deleted in a storm")
	fs.IntVar(&o.stormWatches, "storm-watches", 10_000, "how many watches open and end in a storm")
	fs.StringVar(&o.pair, "pair", "", "measure own kloops without and with these arguments in turn, as --convergence=false, and print both")
	fs.IntVar(&o.pairs, "pairs", 7, "how often each")
	pids := fs.String("pid", "", "the server's processes, with commas between them, for CPU and memory")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	for s := range strings.SplitSeq(*pids, ",") {
		if s == "" {
			continue
		}
		n, err := strconv.Atoi(s)
		if err != nil {
			return nil, fmt.Errorf("process %q: not a number", s)
		}
		o.pids = append(o.pids, n)
	}
	if (o.kubeconfig == "") == (o.kloop == "") {
		return nil, errors.New("say what to measure: --kubeconfig FILE or --kloop FILE")
	}
	return o, nil
}

// wants says whether the user asked for a measurement.
func (o *options) wants(name string) bool {
	return o.only == "" || slices.Contains(strings.Split(o.only, ","), name)
}

// givenCluster measures the cluster of the kubeconfig.
func givenCluster(ctx context.Context, o *options, rep *report) error {
	t, err := newTarget(o, o.kubeconfig, o.pids)
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range measurements() {
		if m.run != nil && o.wants(m.name) {
			errs = append(errs, measureOne(ctx, o, rep, t, m, ""))
		}
	}
	return errors.Join(errs...)
}

// measureOne runs one measurement in a namespace of its own.
func measureOne(ctx context.Context, o *options, rep *report, t *target, m measurement, label string) error {
	if label != "" {
		label = " (" + label + ")"
	}
	fmt.Printf("\n%s%s\n", m.name, label)
	b := &bench{target: t, options: o, rep: rep, label: label}
	if err := m.run(ctx, b); err != nil {
		return fmt.Errorf("%s%s: %w", m.name, label, err)
	}
	return nil
}
