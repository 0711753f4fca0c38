package clusters

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/kloop-dev/kloop/internal/logfile"
	"github.com/kloop-dev/kloop/notify"
)

// How long a cluster may take to start, and its processes to end before they are killed.
const (
	startPatience = 2 * time.Minute
	stopPatience  = 20 * time.Second
)

func (c *Cluster) lock() string { return filepath.Join(c.dir, "lock") }

// Running says whether the cluster's supervisor runs.
func (c *Cluster) Running() bool { return held(c.lock()) }

// Start starts the cluster with a program, kloop, and waits until the API and all nodes answer. status gets what is going on. It does
// nothing when the cluster runs.
func (c *Cluster) Start(ctx context.Context, program string, status func(string)) error {
	if c.Running() {
		return nil
	}
	l, err := notify.Listen()
	if err != nil {
		return err
	}
	defer l.Close()
	log, err := logfile.Create(c.Log(), 0o644)
	if err != nil {
		return fmt.Errorf("open the cluster's log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(program, "start", "--foreground", c.Name)
	cmd.Env = append(l.Env(), "KLOOP_CLUSTERS="+filepath.Dir(c.dir))
	cmd.Dir = workDir(c)
	cmd.Stdout, cmd.Stderr = log, log
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the cluster's supervisor: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startPatience, fmt.Errorf("it was not ready within %s", startPatience))
	defer cancel()
	over, end := context.WithCancelCause(ctx)
	go func() {
		end(fmt.Errorf("its supervisor ended: %v", cmd.Wait()))
	}()
	if err := l.Await(over, status); err != nil {
		return fmt.Errorf("start cluster %s: %w\n%s", c.Name, err, c.lastWords())
	}
	return nil
}

// workDir returns the directory for relative paths of the arguments. A directory that is gone keeps no cluster from starting.
func workDir(c *Cluster) string {
	if info, err := os.Stat(c.From); err == nil && info.IsDir() {
		return c.From
	}
	return "/"
}

// lastWords returns the ends of the logs, for the person who has to find out why it did not start.
func (c *Cluster) lastWords() string {
	var b strings.Builder
	paths := []string{c.Log()}
	for n := 1; n <= c.Nodes && n <= MostNodes; n++ {
		paths = append(paths, c.NodeLog(n))
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil || len(text) == 0 {
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		fmt.Fprintf(&b, "%s ends:\n  %s\n", path, strings.Join(lines[max(0, len(lines)-5):], "\n  "))
	}
	return b.String()
}

// Stop ends the cluster's processes, containers and network. Its data stays. out gets what could not be ended in good order.
func (c *Cluster) Stop(ctx context.Context, out io.Writer) error {
	if c.Running() {
		if err := c.end(ctx); err != nil {
			return err
		}
	}
	if c.Simulated {
		return nil
	}
	left, err := Sweep(c.dir)
	for _, s := range left {
		fmt.Fprintln(out, s)
	}
	return errors.Join(err, unwire(c))
}

// end stops the supervisor: with TERM, and with KILL when that does not help.
func (c *Cluster) end(ctx context.Context) error {
	text, err := os.ReadFile(c.lock())
	if err != nil {
		return fmt.Errorf("find the cluster's supervisor: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid < 2 {
		return fmt.Errorf("%s names no process", c.lock())
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	for _, sig := range []os.Signal{syscall.SIGTERM, os.Kill} {
		if err := p.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stop the cluster's supervisor, process %d: %w", pid, err)
		}
		for end := time.Now().Add(stopPatience + 5*time.Second); time.Now().Before(end); {
			if !c.Running() {
				return nil
			}
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return fmt.Errorf("the cluster's supervisor, process %d, does not end", pid)
}
