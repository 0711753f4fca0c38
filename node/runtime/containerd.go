//go:build linux

package runtime

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/kloop-dev/kloop/internal/logfile"
	"github.com/kloop-dev/kloop/internal/userns"
	"github.com/kloop-dev/kloop/node/image"
	"github.com/kloop-dev/kloop/notify"
)

// startPatience bounds the start of containerd. It takes a fraction of a second, and much longer on a slow machine that boots: a limit
// that is too short would have it start again and again.
const startPatience = 100 * time.Second

// A Containerd is a containerd of the node's own. Its containers outlive it: their shims run on, and the next
// containerd on the same directory finds them.
type Containerd struct {
	cfg Config
	log *slog.Logger
}

// New returns a containerd that Run starts.
func New(cfg Config) *Containerd {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	return &Containerd{cfg: cfg, log: cfg.Log}
}

// Socket is the path of its socket.
func (c *Containerd) Socket() string { return filepath.Join(c.cfg.Dir, "run", "containerd.sock") }

// logPath is the file of what it says.
func (c *Containerd) logPath() string { return filepath.Join(c.cfg.Dir, "containerd.log") }

// Run starts containerd, loads the pause image, and starts containerd again whenever it ends, until ctx does. ready
// is called when it first answers. A containerd that a killed kloop left behind on the directory is taken over.
func (c *Containerd) Run(ctx context.Context, ready func()) error {
	if err := c.prepare(); err != nil {
		return err
	}
	var log sync.WaitGroup
	defer log.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()
	log.Go(func() { logfile.Keep(ctx, c.logPath()) })
	if c.answers(ctx) {
		ready()
		return c.adopt(ctx)
	}
	return c.keep(ctx, ready)
}

// keep is Run where none runs.
func (c *Containerd) keep(ctx context.Context, ready func()) error {
	for failed := 0; ; failed++ {
		began := time.Now()
		cmd, err := c.start()
		if err != nil {
			return err
		}
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		if ready != nil {
			if err := c.loadPause(ctx, done); err != nil {
				return errors.Join(err, stop(cmd, done))
			}
			ready()
			ready = nil
		}
		select {
		case <-ctx.Done():
			return stop(cmd, done)
		case err := <-done:
			c.log.Warn("containerd ended; starting it again", "err", err)
		}
		if time.Since(began) > time.Minute {
			failed = 0
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(min(time.Second<<min(failed, 5), 30*time.Second)):
		}
	}
}

// adopt watches over a containerd that is not our child, and replaces it when it is gone.
func (c *Containerd) adopt(ctx context.Context) error {
	c.log.Info("using the containerd that runs already", "socket", c.Socket())
	for c.answers(ctx) {
		select {
		case <-ctx.Done():
			return c.stopOther()
		case <-time.After(10 * time.Second):
		}
	}
	if ctx.Err() != nil {
		return c.stopOther()
	}
	return c.keep(ctx, func() {})
}

// answers says whether a containerd listens on the socket.
func (c *Containerd) answers(ctx context.Context) bool {
	if _, err := os.Stat(c.Socket()); err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	r, err := Connect(ctx, c.Socket())
	if err != nil {
		return false
	}
	return r.Close() == nil
}

// prepare writes the configuration.
func (c *Containerd) prepare() error {
	for _, d := range []string{"root", "state", "run", "run/s", "cni/conf", "cni/ipam", "opt"} {
		if err := os.MkdirAll(filepath.Join(c.cfg.Dir, d), 0o711); err != nil {
			return fmt.Errorf("make the runtime's directories: %w", err)
		}
	}
	version, err := exec.Command("containerd", "--version").Output()
	if err != nil {
		return fmt.Errorf("ask containerd for its version: %w", err)
	}
	reads := format(string(version))
	plugins, err := c.plugins(reads > 2)
	if err != nil {
		return err
	}
	if c.cfg.Registries != nil {
		if err := c.cfg.Registries.write(c.cfg.registries()); err != nil {
			return err
		}
	}
	conf, err := containerdConfig(c.cfg, plugins, reads, limitedOOM())
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(c.cfg.Dir, "containerd.toml"), conf, 0o600); err != nil {
		return fmt.Errorf("write containerd's configuration: %w", err)
	}
	return nil
}

// plugins are the directories of network plugins, the most important first. Where others bring the network that is the directory that
// their installers write to; containerd 1 looks there only, and so finds those there that it needs itself.
func (c *Containerd) plugins(modern bool) ([]string, error) {
	own, err := cniPlugins()
	if err != nil || !c.cfg.Foreign || own == foreignPlugins {
		return []string{own}, err
	}
	for _, dir := range []string{foreignConf, foreignPlugins} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("make the directories of network plugins: %w", err)
		}
	}
	if modern {
		return []string{foreignPlugins, own}, nil
	}
	list, err := os.ReadDir(own)
	if err != nil {
		return nil, fmt.Errorf("list the network plugins: %w", err)
	}
	for _, e := range list {
		err := os.Symlink(filepath.Join(own, e.Name()), filepath.Join(foreignPlugins, e.Name()))
		if err != nil && !errors.Is(err, os.ErrExist) {
			return nil, fmt.Errorf("lend a network plugin: %w", err)
		}
	}
	return []string{foreignPlugins}, nil
}

// limitedOOM says that this process may not lower anybody's OOM score: containerd must not try (it lacks
// CAP_SYS_RESOURCE in some sandboxes and containers, and has that of a user namespace alone without root).
func limitedOOM() bool {
	if userns.Inside() {
		return true
	}
	const sysResource = 24
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		if hex, ok := strings.CutPrefix(line, "CapEff:"); ok {
			var caps uint64
			if _, err := fmt.Sscanf(strings.TrimSpace(hex), "%x", &caps); err == nil {
				return caps&(1<<sysResource) == 0
			}
		}
	}
	return false
}

func (c *Containerd) start() (*exec.Cmd, error) {
	out, err := logfile.Create(c.logPath(), 0o600)
	if err != nil {
		return nil, fmt.Errorf("open containerd's log: %w", err)
	}
	defer out.Close() // the child has its own descriptor
	cmd := exec.Command("containerd", "--config", filepath.Join(c.cfg.Dir, "containerd.toml"), "--log-level", "warn")
	cmd.Stdout, cmd.Stderr = out, out
	// It would tell systemd that kloop is ready.
	cmd.Env = notify.Environ()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // signals to kloop's terminal are not for it
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start containerd: %w", err)
	}
	pid := []byte(fmt.Sprint(cmd.Process.Pid))
	return cmd, os.WriteFile(filepath.Join(c.cfg.Dir, "run", "containerd.pid"), pid, 0o600)
}

// loadPause waits until containerd answers and gives it the pause image.
func (c *Containerd) loadPause(ctx context.Context, done <-chan error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startPatience, fmt.Errorf("containerd did not answer within %s", startPatience))
	defer cancel()
	go func() {
		select {
		case <-done:
			cancel()
		case <-ctx.Done():
		}
	}()
	r, err := Connect(ctx, c.Socket())
	if err != nil {
		text, _ := os.ReadFile(c.logPath()) // best effort: it says why
		return fmt.Errorf("start containerd: %w; its log ends: %s", err, tail(text, 600))
	}
	defer r.Close()
	var archive bytes.Buffer
	if err := image.Pause(&archive); err != nil {
		return err
	}
	path := filepath.Join(c.cfg.Dir, "pause.tar")
	if err := os.WriteFile(path, archive.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write the pause image: %w", err)
	}
	_, err = Load(ctx, c.Socket(), path)
	return err
}

func tail(text []byte, n int) []byte {
	text = bytes.TrimSpace(text)
	return text[max(0, len(text)-n):]
}

// stop ends containerd: politely, then not.
func stop(cmd *exec.Cmd, done <-chan error) error {
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return nil // it has ended
	}
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		return cmd.Process.Kill()
	}
	return nil
}

// stopOther ends the containerd that an earlier kloop started here.
func (c *Containerd) stopOther() error {
	text, err := os.ReadFile(filepath.Join(c.cfg.Dir, "run", "containerd.pid"))
	if err != nil {
		return nil // it was not ours
	}
	var pid int
	if _, err := fmt.Sscan(string(text), &pid); err != nil || pid <= 1 {
		return nil
	}
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil || strings.TrimSpace(string(name)) != "containerd" {
		return nil // the number belongs to somebody else by now
	}
	return syscall.Kill(pid, syscall.SIGTERM)
}

// hasAppArmor says whether the kernel enforces AppArmor profiles, and takes ours.
func hasAppArmor() bool {
	text, err := os.ReadFile("/sys/module/apparmor/parameters/enabled")
	return err == nil && strings.HasPrefix(string(text), "Y") && !userns.Inside()
}
