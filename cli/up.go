package cli

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/kloop-dev/kloop/cluster"
)

// upFlags binds the flags of up and server to a configuration.
type upFlags struct {
	cfg                cluster.Config
	etcd, hosts, level string
	pprof              string
}

func (f *upFlags) bind(fs *flag.FlagSet) {
	fs.StringVar(&f.cfg.DataDir, "data-dir", "/var/lib/kloop", "directory of keys, certificates and the store")
	fs.StringVar(&f.cfg.Listen, "listen", ":6443", "address of the API, host:port; pods can't reach it on the loopback")
	fs.StringVar(&f.hosts, "hosts", "", "further names and addresses of the API, with commas between them")
	fs.StringVar(&f.cfg.Store, "store", cluster.StoreEtcd, "etcd, or memory (gone when kloop ends)")
	fs.StringVar(&f.etcd, "etcd-servers", "", "use these etcd servers instead of the embedded one, with commas between them")
	fs.StringVar(&f.cfg.EtcdTLS.CA, "etcd-cafile", "", "certificate authority of the etcd servers")
	fs.StringVar(&f.cfg.EtcdTLS.Cert, "etcd-certfile", "", "client certificate for the etcd servers")
	fs.StringVar(&f.cfg.EtcdTLS.Key, "etcd-keyfile", "", "key of the client certificate")
	fs.StringVar(&f.cfg.Kubeconfig, "kubeconfig", "", "where to write the administrator's kubeconfig (also DATA-DIR/admin.kubeconfig)")
	fs.StringVar(&f.level, "log", "info", "debug, info, warn or error")
	fs.StringVar(&f.pprof, "pprof", "", "serve profiles of kloop itself at this address, host:port")
}

func (f *upFlags) config(std stdio) (cluster.Config, error) {
	var err error
	if f.cfg.Log, err = logger(std, f.level); err != nil {
		return f.cfg, err
	}
	f.cfg.EtcdServers = list(f.etcd)
	f.cfg.Hosts = list(f.hosts)
	if f.cfg.Store == cluster.StoreMemory {
		f.cfg.NodeDir = f.cfg.DataDir // images stay
		f.cfg.DataDir = ""            // nothing of a throw-away cluster should outlive it
	}
	return f.cfg, nil
}

func list(s string) (out []string) {
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

func up(ctx context.Context, std stdio, args []string) error {
	var f upFlags
	fs := flags(std, "up")
	f.bind(fs)
	fs.StringVar(&f.cfg.Node, "node", cluster.NodeAuto, "real: this machine is a node; auto: if it has a container runtime; none")
	fs.StringVar(&f.cfg.NodeName, "node-name", "", "name of this machine's node (default: the host name)")
	fs.StringVar(&f.cfg.StaticDir, "manifests", "", "directory of static pods of this machine's node")
	fs.IntVar(&f.cfg.SimNodes, "sim-nodes", 0, "how many simulated nodes to make")
	fs.DurationVar(&f.cfg.NodeMonitorGrace, "node-monitor-grace", 50*time.Second, "silence after which a node is not ready")
	if err := parse(fs, args); err != nil {
		return err
	}
	return run(ctx, std, &f)
}

func serve(ctx context.Context, std stdio, args []string) error {
	f := upFlags{cfg: cluster.Config{NoLoops: true, Node: cluster.NodeNone}}
	fs := flags(std, "server")
	f.bind(fs)
	if err := parse(fs, args); err != nil {
		return err
	}
	return run(ctx, std, &f)
}

// run starts the cluster, says so, and waits for its end.
func run(ctx context.Context, std stdio, f *upFlags) error {
	began := time.Now()
	cfg, err := f.config(std)
	if err != nil {
		return err
	}
	if f.pprof != "" {
		if err := servePprof(ctx, f.pprof, cfg.Log); err != nil {
			return err
		}
	}
	c, err := cluster.Start(ctx, cfg)
	if err != nil {
		return advise(err)
	}
	fmt.Fprintf(std.out, "kloop is ready at %s after %d ms\n", c.URL(), time.Since(began).Milliseconds())
	if path := c.KubeconfigPath(); path != "" {
		fmt.Fprintf(std.out, "export KUBECONFIG=%s\n", path)
	}
	if err := c.Nodeless(); err != nil {
		fmt.Fprintf(std.out, "this machine is not a node: %v\n", err)
	}
	return advise(c.Wait())
}
