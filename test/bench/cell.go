package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/kloop-dev/kloop/node/runtime"
)

// A cell is a network namespace for a node with real pods, which so leaves the machine's own network as it is.
type cell struct{ name, outside, address string }

// newCell makes one, joined to this one's by a pair of interfaces.
func newCell() (*cell, error) {
	c := &cell{name: fmt.Sprintf("kloop-bench-%d", os.Getpid()), outside: fmt.Sprintf("klb%d", os.Getpid()), address: "10.253.77.2"}
	err := shell(`ip netns add %[1]s && ip link add %[2]s type veth peer name eth0 netns %[1]s &&
		ip addr add 10.253.77.1/30 dev %[2]s && ip link set %[2]s up && ip -n %[1]s link set lo up &&
		ip -n %[1]s addr add %[3]s/30 dev eth0 && ip -n %[1]s link set eth0 up && ip -n %[1]s route add default via 10.253.77.1`,
		c.name, c.outside, c.address)
	if err != nil {
		c.remove()
	}
	return c, err
}

func (c *cell) remove() {
	_ = shell("ip link del %s", c.outside) // it may not be there
	_ = shell("ip netns del %s", c.name)
}

// command runs a program in the cell. Not by `ip netns exec`, which hides the cgroups.
func (c *cell) command(program string, args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"--net=/run/netns/" + c.name, program}, args...)...)
}

func shell(format string, args ...any) error {
	line := fmt.Sprintf(format, args...)
	if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", line, err, out)
	}
	return nil
}

// reap ends what still has its files below a directory: runtimes, shims and their containers.
func reap(dir string) {
	procs, _ := filepath.Glob("/proc/[0-9]*/cmdline") // fails on bad patterns only
	for _, p := range procs {
		text, err := os.ReadFile(p)
		var pid int
		if err != nil || !strings.Contains(string(text), dir) {
			continue
		}
		if _, err := fmt.Sscanf(p, "/proc/%d/cmdline", &pid); err == nil && pid != os.Getpid() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	_ = shell("grep ' %s/' /proc/mounts | cut -d' ' -f2 | sort -r | xargs -r -n1 umount -l", dir)
}

// rawRuntime starts a containerd like kloop's beside it, in the same cell: with its settings, and a bridge and addresses of its own.
func (c *cell) rawRuntime(ctx context.Context, kloops, dir string) (rt *runtime.Runtime, stop func(), err error) {
	conf, err := os.ReadFile(filepath.Join(kloops, "containerd.toml"))
	if err != nil {
		return nil, nil, err
	}
	for _, sub := range []string{"root", "state", "run/s", "cni/conf", "cni/ipam", "opt"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o711); err != nil {
			return nil, nil, err
		}
	}
	file := filepath.Join(dir, "containerd.toml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(conf), kloops, dir)), 0o600); err != nil {
		return nil, nil, err
	}
	if err := rawNetwork(runtime.Config{Dir: kloops}.OwnConfig(), runtime.Config{Dir: dir}); err != nil {
		return nil, nil, err
	}
	cmd := c.command("containerd", "--config", file, "--log-level", "warn")
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	end := func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}
	wait, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	socket := runtime.New(runtime.Config{Dir: dir}).Socket()
	if rt, err = runtime.Connect(wait, socket); err != nil {
		end()
		return nil, nil, err
	}
	if _, err := runtime.Load(wait, socket, filepath.Join(kloops, "pause.tar")); err != nil {
		end()
		return nil, nil, err
	}
	return rt, func() { rt.Close(); end() }, nil
}

// rawNetwork copies kloop's CNI configuration, for another bridge.
func rawNetwork(from string, to runtime.Config) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	var conf map[string]any
	if err := json.Unmarshal(text, &conf); err != nil {
		return err
	}
	conf["name"] = "raw"
	for _, p := range conf["plugins"].([]any) {
		if m := p.(map[string]any); m["type"] == "bridge" {
			m["bridge"] = "raw0"
			m["ipam"] = map[string]any{"type": "host-local", "dataDir": to.IPAMDir(),
				"ranges": []any{[]any{map[string]string{"subnet": "10.254.0.0/23"}}}, "routes": []any{map[string]string{"dst": "0.0.0.0/0"}}}
		}
	}
	if text, err = json.Marshal(conf); err != nil {
		return err
	}
	return os.WriteFile(to.OwnConfig(), text, 0o600)
}

// soon bounds one step of pods.
const soon = 3 * time.Minute
