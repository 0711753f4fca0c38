package clusters

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/kloop-dev/kloop/internal/logfile"
	"github.com/kloop-dev/kloop/notify"
)

// Supervise runs the cluster's network, nodes and ports until ctx ends; ready is called when the API and all nodes answer. A process that
// ends is started again, after growing pauses. One supervisor runs a cluster at a time.
func (c *Cluster) Supervise(ctx context.Context, program string, log *slog.Logger, ready func()) (err error) {
	unlock, err := c.take()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	ctx, stop := context.WithCancel(ctx)
	defer closeMountNamespaces(c)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	all.Go(func() { logfile.Keep(ctx, c.Log()) })
	if !c.Simulated {
		if _, err := Sweep(c.dir); err != nil { // what a supervisor that was killed left
			return err
		}
		if err := wire(c); err != nil {
			return fmt.Errorf("make the cluster's network: %w", err)
		}
		if err := makeMountNamespaces(c); err != nil {
			return err
		}
	}
	for _, p := range c.Ports {
		l, err := net.Listen("tcp", netip.AddrPortFrom(p.Address, p.Host).String())
		if err != nil {
			return fmt.Errorf("lead port %s to the cluster: %w", p, err)
		}
		all.Go(func() { carry(ctx, l, netip.AddrPortFrom(c.Address(p.Node), p.Port).String()) })
	}
	_ = notify.Status("starting the server") // who does not listen misses it
	if err := c.keep(ctx, &all, program, 1, log); err != nil {
		return err
	}
	if err := c.keepOthers(ctx, &all, program, log); err != nil {
		return err
	}
	ready()
	<-ctx.Done()
	return nil
}

// take makes this process the cluster's supervisor. Somebody who only looks at the lock may hold it for a moment.
func (c *Cluster) take() (unlock func() error, err error) {
	for range 20 {
		if unlock, err = hold(c.lock(), false); err == nil {
			return unlock, os.WriteFile(c.lock(), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil, fmt.Errorf("cluster %s runs already: %w", c.Name, err)
}

// keepOthers starts the nodes beside the first, at once.
func (c *Cluster) keepOthers(ctx context.Context, all *sync.WaitGroup, program string, log *slog.Logger) error {
	if c.Simulated || c.Nodes == 1 {
		return nil
	}
	_ = notify.Status("starting %d more nodes", c.Nodes-1)
	errs := make([]error, c.Nodes+1)
	var group sync.WaitGroup
	for n := 2; n <= c.Nodes; n++ {
		group.Go(func() {
			if err := c.identify(n); err != nil {
				errs[n] = err
				return
			}
			errs[n] = c.keep(ctx, all, program, n, log)
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// groupPrefix begins the names of the cgroups in which nodes have that of their pods: one limit holds all pods of a node, and each node
// has another.
const groupPrefix = "/kloop-"

// rootDir is the path of an agent's root directory on the machine. The agent, and what runs on the node, see it as agentRoot.
func (c *Cluster) rootDir(n int) string { return filepath.Join(c.NodeDir(n), "node") }

func (c *Cluster) nodeKubeconfig(n int) string { return filepath.Join(c.NodeDir(n), "node.kubeconfig") }

// borrowed are the flags of nodes whose disk is their user's: how full it is is no matter of the cluster, which neither evicts pods nor
// takes loaded images away for it, as with kind. A user's own flags come later, and count; a user's file says all of it.
var borrowed = []string{"--image-gc-high-threshold", "100", "--eviction-hard", "memory.available<100Mi"}

// diskFlags returns the flags about a node's disk, beside a user's: flags would win over a configuration file.
func diskFlags(given []string) []string {
	if slices.ContainsFunc(given, func(a string) bool { return strings.HasPrefix(strings.TrimLeft(a, "-"), "config") }) {
		return nil
	}
	return borrowed
}

// command is the command line of a node's process.
func (c *Cluster) command(n int) []string {
	switch {
	case c.Simulated:
		return append([]string{"up", "--data-dir", c.NodeDir(1), "--node", "none", "--sim-nodes", strconv.Itoa(c.Nodes),
			"--listen", netip.AddrPortFrom(c.Address(1), uint16(c.API)).String()}, c.Args...)
	case n == 1:
		return append([]string{"up", "--data-dir", c.NodeDir(1), "--node", "real", "--node-name", c.NodeName(1), "--listen",
			":" + strconv.Itoa(c.API),
			"--hosts", c.Address(1).String(), "--root-dir", agentRoot, "--cgroup-root", groupPrefix + c.NodeName(1)},
			slices.Concat(diskFlags(c.Args), c.Args)...)
	}
	return append([]string{"node", "--data-dir", c.NodeDir(n), "--kubeconfig", c.nodeKubeconfig(n), "--name", c.NodeName(n),
		"--address", c.Address(n).String(), "--root-dir", agentRoot, "--cgroup-root", groupPrefix + c.NodeName(n)},
		slices.Concat(diskFlags(c.NodeArgs), c.NodeArgs)...)
}

// keep starts a node's process, waits until it is ready, and starts it again whenever it ends, until ctx does.
func (c *Cluster) keep(ctx context.Context, all *sync.WaitGroup, program string, n int, log *slog.Logger) error {
	file, err := logfile.Create(c.NodeLog(n), 0o644)
	if err != nil {
		return fmt.Errorf("open the log of node %d: %w", n, err)
	}
	first := make(chan error, 1)
	all.Go(func() { logfile.Keep(ctx, c.NodeLog(n)) })
	all.Go(func() {
		defer file.Close()
		for failed := 0; ctx.Err() == nil; failed++ {
			began := time.Now()
			cmd := exec.Command(program, c.command(n)...)
			cmd.Stdout, cmd.Stderr = file, file
			err := c.once(ctx, cmd, n, first)
			if ctx.Err() != nil {
				return
			}
			if time.Since(began) > time.Minute {
				failed = 0
			}
			pause := min(time.Second<<min(failed, 5), 30*time.Second)
			log.Error("a node's process ended", "node", c.NodeName(n), "err", err, "again", pause)
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
	})
	select {
	case err := <-first:
		return err
	case <-ctx.Done():
		return nil
	}
}

// once runs a process until it or ctx ends. first gets whether it became ready, as long as nobody has told.
func (c *Cluster) once(ctx context.Context, cmd *exec.Cmd, n int, first chan<- error) error {
	l, err := notify.Listen()
	if err != nil {
		return err
	}
	defer l.Close()
	cmd.Env = l.Env()
	if err := spawn(c, cmd, n); err != nil {
		return c.tell(first, fmt.Errorf("start node %d: %w", n, err))
	}
	done := make(chan error, 1)
	alive, ended := context.WithCancelCause(ctx)
	defer ended(nil)
	go func() {
		err := cmd.Wait()
		ended(fmt.Errorf("the process of %s ended: %v; see %s", c.NodeName(n), err, c.NodeLog(n)))
		done <- err
	}()
	go func() { _ = c.tell(first, l.Await(alive, nil)) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case err := <-done:
		return err
	case <-time.After(stopPatience):
		return errors.Join(errors.New("it was killed"), cmd.Process.Kill(), <-done)
	}
}

func (c *Cluster) tell(first chan<- error, err error) error {
	select {
	case first <- err:
	default: // somebody has told
	}
	return err
}
