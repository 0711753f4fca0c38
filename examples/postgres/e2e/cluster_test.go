//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kloop-dev/kloop/examples/postgres/api/v1alpha1"
	"github.com/kloop-dev/kloop/test/need"
)

var nodes = []struct{ ns, name, addr, link string }{
	{"kloop-pg-1", "one", "10.202.0.2", "klpg0"},
	{"kloop-pg-2", "two", "10.202.0.3", "klpg1"},
}

const (
	bridge   = "kloop-pg"
	patience = time.Minute
)

// A machine is a real cluster of two nodes.
type machine struct {
	t     *testing.T
	dir   string
	kloop string
	api   client.Client
	procs [2]*exec.Cmd
}

// start makes the cluster, with the image on both nodes; all of it goes with the test.
func start(t *testing.T) *machine {
	t.Helper()
	need.BeRoot(t)
	_, missing := exec.LookPath("containerd")
	need.Have(t, need.Containerd, missing)
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, kloop: os.Getenv("KLOOP")}
	if m.kloop == "" {
		m.kloop = filepath.Join(root, "bin", "kloop")
	}
	if m.dir, err = os.MkdirTemp("/var/tmp", "kloop-pg"); err != nil { // sockets below it have short paths
		t.Fatal(err)
	}
	t.Cleanup(m.down)
	m.wire()
	m.run(0, "up", "--listen", nodes[0].addr+":6443", "--node", "real", "--node-name", nodes[0].name, "--node-monitor-grace", "10s",
		"--image-gc-high-threshold", "100", "--eviction-hard", "memory.available<1Mi") // how full the disk is, is not what is tested
	m.join()
	cfg, err := clientcmd.BuildConfigFromFlags("", m.kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS = -1
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	if m.api, err = client.New(cfg, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	for i := range nodes {
		m.sh("%s image load --data-dir %s ../bin/postgres.tar", m.kloop, m.data(i))
	}
	return m
}

func (m *machine) data(node int) string { return filepath.Join(m.dir, nodes[node].name) }

func (m *machine) kubeconfig() string { return filepath.Join(m.data(0), "admin.kubeconfig") }

// try runs a line of shell.
func try(format string, args ...any) (string, error) {
	line := fmt.Sprintf(format, args...)
	out, err := exec.Command("sh", "-c", line).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", line, err, out)
	}
	return strings.TrimSpace(string(out)), err
}

func (m *machine) sh(format string, args ...any) string {
	m.t.Helper()
	out, err := try(format, args...)
	if err != nil {
		m.t.Fatal(err)
	}
	return out
}

func (m *machine) kubectl(format string, args ...any) string {
	m.t.Helper()
	return m.sh("%s kubectl --kubeconfig %s %s", m.kloop, m.kubeconfig(), fmt.Sprintf(format, args...))
}

// wire joins the nodes' namespaces by a bridge.
func (m *machine) wire() {
	unwire()
	m.sh("ip link add %[1]s type bridge && ip addr add 10.202.0.1/24 dev %[1]s && ip link set %[1]s up", bridge)
	for _, n := range nodes {
		m.sh(`set -e
			ip netns add %[1]s
			ip link add %[2]s type veth peer name eth0 netns %[1]s
			ip link set %[2]s master %[3]s up
			ip -n %[1]s link set lo up
			ip -n %[1]s link set eth0 up
			ip -n %[1]s addr add %[4]s/24 dev eth0
			ip -n %[1]s route add default via 10.202.0.1`, n.ns, n.link, bridge, n.addr)
	}
}

func unwire() {
	for _, n := range nodes {
		_, _ = try("ip netns del %s", n.ns) // may not be there
		_, _ = try("ip link del %s", n.link)
	}
	_, _ = try("ip link del %s", bridge)
}

// run starts kloop in a node's namespace and waits until it is ready.
func (m *machine) run(node int, args ...string) {
	m.t.Helper()
	log, err := os.OpenFile(m.data(node)+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		m.t.Fatal(err)
	}
	defer log.Close()
	args = append(args, "--data-dir", m.data(node), "--root-dir", filepath.Join(m.data(node), "node"))
	cmd := exec.Command("nsenter", append([]string{"--net=/run/netns/" + nodes[node].ns, m.kloop}, args...)...) // ip netns exec hides cgroups
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		m.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.procs[node] = cmd
	ready := make(chan bool, 1)
	go func() {
		for in := bufio.NewScanner(out); in.Scan(); {
			if strings.Contains(in.Text(), "is ready") {
				ready <- true
			}
		}
		close(ready)
	}()
	select {
	case ok := <-ready:
		if !ok {
			m.t.Fatalf("kloop %s ended; see its log:\n%s", args[0], m.tail(node))
		}
	case <-time.After(patience):
		m.t.Fatalf("kloop %s does not get ready:\n%s", args[0], m.tail(node))
	}
}

func (m *machine) join() {
	m.t.Helper()
	line := m.sh("%s token --node --data-dir %s --server https://%s:6443", m.kloop, m.data(0), nodes[0].addr)
	m.run(1, append(strings.Fields(line)[1:], "--name", nodes[1].name, "--heartbeat", "1s",
		"--image-gc-high-threshold", "100", "--eviction-hard", "memory.available<1Mi")...)
}

func (m *machine) tail(node int) string {
	text, _ := os.ReadFile(m.data(node) + ".log")
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}

// kill ends a node's kloop and every process that belongs to it, as a power failure does.
func (m *machine) kill(node int) {
	if cmd := m.procs[node]; cmd != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		m.procs[node] = nil
	}
	for range 20 { // until there is none: a shim that is killed leaves its containers
		pids := m.below(m.data(node) + "/")
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if len(pids) == 0 {
			return
		}
		pause(50 * time.Millisecond)
	}
}

// below lists processes that have a path on their command line, and those in the pods' namespaces of such shims.
func (m *machine) below(path string) (pids []int) {
	parents := map[int]int{}
	mine := map[int]bool{}
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range all {
		var pid int
		text, err := os.ReadFile(file)
		if _, err2 := fmt.Sscanf(file, "/proc/%d/cmdline", &pid); err != nil || err2 != nil || pid == os.Getpid() {
			continue
		}
		mine[pid] = bytes.Contains(text, []byte(path))
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
			_, rest, _ := bytes.Cut(stat, []byte(") "))
			var state string
			var parent int
			if _, err := fmt.Sscan(string(rest), &state, &parent); err == nil {
				parents[pid] = parent
			}
		}
	}
	for pid := range mine {
		for p, n := pid, 0; p > 1 && n < 20; p, n = parents[p], n+1 {
			if mine[p] {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}

func (m *machine) down() {
	if m.t.Failed() {
		for i := range nodes {
			m.t.Logf("the end of the log of node %s:\n%s", nodes[i].name, m.tail(i))
		}
		m.sayWhy()
	}
	for i := range nodes {
		m.kill(i)
	}
	_, _ = try("grep ' %s/' /proc/mounts | cut -d' ' -f2 | sort -r | xargs -r -n1 umount -l", m.dir)
	unwire()
	if err := os.RemoveAll(m.dir); err != nil {
		m.t.Log(err)
	}
}

// sayWhy prints what the cluster says of itself.
func (m *machine) sayWhy() {
	for _, line := range []string{"get pods,pgc,pgb -A -o wide", "get pgc -A -o jsonpath='{.items[*].status}'",
		"get pods -o jsonpath='{range .items[*]}{.metadata.name} {.metadata.annotations}{\"\\n\"}{end}'",
		"logs -n postgres-operator -l app=postgres-operator --tail=5"} {
		out, err := try("%s kubectl --kubeconfig %s %s", m.kloop, m.kubeconfig(), line)
		m.t.Log(out, err)
	}
	pods, _ := try("%s kubectl --kubeconfig %s get pods -o name", m.kloop, m.kubeconfig())
	for _, pod := range strings.Fields(pods) {
		out, _ := try("%s kubectl --kubeconfig %s logs %s --tail=12", m.kloop, m.kubeconfig(), pod)
		m.t.Logf("%s:\n%s", pod, out)
	}
}

func pause(d time.Duration) { <-time.After(d) }

// eventually waits for a condition.
func (m *machine) eventually(what string, limit time.Duration, ok func(context.Context) (bool, string)) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), limit)
	defer cancel()
	last := ""
	for ctx.Err() == nil {
		done, now := ok(ctx)
		if done {
			return
		}
		last = now
		pause(100 * time.Millisecond)
	}
	m.t.Fatalf("not within %s: %s; last: %s", limit, what, last)
}

// dialer connects from a node's network namespace.
func dialer(node int) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (conn net.Conn, err error) {
		done := make(chan struct{})
		go func() { // its thread ends with it: it has another network
			defer close(done)
			if err = enter(nodes[node].ns); err == nil {
				conn, err = (&net.Dialer{Timeout: time.Second, Control: nil}).DialContext(ctx, network, addr)
			}
		}()
		<-done
		return conn, err
	}
}
