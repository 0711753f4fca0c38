// Command coredns measures kloop's cluster DNS beside CoreDNS: the same questions about the same cluster, in turns, on the same machine.
// It prints questions a second, processor time a question, memory, and how long an answer lags behind a change of an endpoint.
//
//	go run . -kloop ../../../bin/kloop
//
// It is a module of its own, so that neither kloop nor anybody who imports it has to fetch CoreDNS.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

type options struct {
	kloop                      string
	services, runs, changes    int
	asking                     time.Duration
	clients                    int
	kubeconfig, directory, log string
}

func main() {
	o := options{}
	flag.StringVar(&o.kloop, "kloop", "../../../bin/kloop", "program whose API server both read")
	flag.IntVar(&o.services, "services", 1000, "of three endpoints each; every tenth is headless")
	flag.IntVar(&o.runs, "runs", 5, "turns of each server; the median counts")
	flag.IntVar(&o.clients, "clients", 16, "sockets that ask, each one question at a time")
	flag.IntVar(&o.changes, "changes", 2000, "of an endpoint, one at a time, for each server")
	flag.DurationVar(&o.asking, "time", 3*time.Second, "of each turn")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A server is one of the two, as a process.
type server struct {
	name string
	at   string
	cmd  *exec.Cmd

	perSecond, perQuestion []float64 // of each turn; microseconds of processor time
	lags                   []float64 // milliseconds
	quiet, busy            float64   // memory in MiB, private to the process
	beside                 float64   // of busy, what a process has that keeps the copies and serves nothing
}

func run(ctx context.Context, o options) (err error) {
	if o.directory, err = os.MkdirTemp("", "kloop-dns-"); err != nil {
		return err
	}
	defer os.RemoveAll(o.directory)
	o.kubeconfig = filepath.Join(o.directory, "kubeconfig")
	api := command(o.kloop, "server", "--store", "memory", "--data-dir", filepath.Join(o.directory, "data"), "--listen", "127.0.0.1:0",
		"--kubeconfig", o.kubeconfig, "--log", "warn")
	if err := api.Start(); err != nil {
		return fmt.Errorf("start the API server: %w", err)
	}
	defer end(api)
	c, err := await(ctx, o.kubeconfig)
	if err != nil {
		return err
	}
	w, err := populate(ctx, c, o.services)
	if err != nil {
		return fmt.Errorf("make %d services: %w", o.services, err)
	}
	list, err := servers(ctx, o)
	for _, s := range list {
		defer end(s.cmd)
	}
	if err != nil {
		return err
	}
	copies := command(filepath.Join(o.directory, "ours"), "-kubeconfig", o.kubeconfig, "-off")
	if err := copies.Start(); err != nil {
		return err
	}
	defer end(copies)
	for _, s := range list {
		if err := s.serves(ctx, w); err != nil {
			return err
		}
		s.quiet = private(s.cmd.Process.Pid)
	}
	for turn := range o.runs {
		for i := range list { // each begins as often
			if err := list[(i+turn)%len(list)].turn(ctx, o, w); err != nil {
				return err
			}
		}
	}
	for _, s := range list {
		s.busy = private(s.cmd.Process.Pid)
	}
	list[0].beside = private(copies.Process.Pid)
	end(copies)
	if err := turns(ctx, c, o, list); err != nil {
		return err
	}
	show(list)
	return ctx.Err()
}

func command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

func end(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// await returns a client as soon as the API server is ready.
func await(ctx context.Context, kubeconfig string) (*kubernetes.Clientset, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig); err == nil {
			cfg.QPS, cfg.Burst = 2000, 2000
			c, err := kubernetes.NewForConfig(cfg)
			if err != nil {
				return nil, err
			}
			if _, err := c.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err == nil {
				return c, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, errors.New("the API server is not ready after a minute")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// corefile is that of kubeadm's manifest, but for plugins that answer no questions.
const corefile = `cluster.local:%s in-addr.arpa:%[1]s {
    bind 127.0.0.1
    errors
    ready 127.0.0.1:%[2]s
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        kubeconfig %[3]s
        pods insecure
        ttl 30
    }
    prometheus 127.0.0.1:%[4]s
    cache 30 {
        disable success cluster.local
        disable denial cluster.local
    }
    loadbalance
}
`

// servers builds and starts both.
func servers(ctx context.Context, o options) (list []*server, err error) {
	var ports []string
	for range 5 {
		p, err := freePort()
		if err != nil {
			return nil, err
		}
		ports = append(ports, p)
	}
	for _, name := range []string{"ours", "theirs"} {
		build := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(o.directory, name), "./"+name)
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return nil, fmt.Errorf("build %s: %w", name, err)
		}
	}
	conf := filepath.Join(o.directory, "Corefile")
	text := fmt.Sprintf(corefile, ports[1], ports[2], o.kubeconfig, ports[3])
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return nil, err
	}
	for _, s := range []*server{
		{name: "kloop", at: "127.0.0.1:" + ports[0], cmd: command(filepath.Join(o.directory, "ours"), "-kubeconfig", o.kubeconfig,
			"-port", ports[0])},
		{name: "CoreDNS", at: "127.0.0.1:" + ports[1], cmd: command(filepath.Join(o.directory, "theirs"), "-conf", conf, "-quiet")},
	} {
		if err := s.cmd.Start(); err != nil {
			return list, fmt.Errorf("start %s: %w", s.name, err)
		}
		list = append(list, s)
	}
	return list, nil
}

// freePort is one with a free neighbour, for metrics.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}

func show(list []*server) {
	ours, theirs := list[0], list[1]
	row := func(what, unit string, a, b float64, more bool) {
		ratio := b / a
		if more {
			ratio = a / b
		}
		fmt.Printf("%-44s %12.2f %12.2f %-6s %6.2f x better\n", what, a, b, unit, ratio)
	}
	fmt.Printf("%-44s %12s %12s\n", "", ours.name, theirs.name)
	row("questions a second", "", middle(ours.perSecond, 0.5), middle(theirs.perSecond, 0.5), true)
	row("processor time a question", "us", middle(ours.perQuestion, 0.5), middle(theirs.perQuestion, 0.5), false)
	row("memory before the first question", "MiB", ours.quiet, theirs.quiet, false)
	row("memory after all of them", "MiB", ours.busy, theirs.busy, false)
	row("… less the copies that an agent has anyway", "MiB", ours.busy-ours.beside, theirs.busy, false)
	row("answer behind the change seen, median", "ms", middle(ours.lags, 0.5), middle(theirs.lags, 0.5), false)
	row("answer behind the change seen, 99 %", "ms", middle(ours.lags, 0.99), middle(theirs.lags, 0.99), false)
}

func middle(list []float64, at float64) float64 {
	list = slices.Sorted(slices.Values(list))
	if len(list) == 0 {
		return 0
	}
	return list[min(len(list)-1, int(at*float64(len(list))))]
}
