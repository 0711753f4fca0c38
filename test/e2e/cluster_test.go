//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kloop-dev/kloop/test/need"
)

// The two nodes: their namespaces, addresses and gateways. The ranges of their pods, and the routes between them, are the cluster's own.
var nodes = []struct{ ns, name, addr, addr6, via, via6 string }{
	{"kloop-e2e-1", "one", "10.200.0.2", "fd00:200::2", "10.200.0.1", "fd00:200::1"},
	{"kloop-e2e-2", "two", "10.200.0.3", "fd00:200::3", "10.200.0.1", "fd00:200::1"},
}

// routed puts the second node behind a router, so that pods of the two reach each other through the tunnel alone.
var routed = os.Getenv("KLOOP_E2E_ROUTED") != ""

// Families of addresses that the cluster under test has: "4", "6", "46" or "64", the default one first.
var families = cmp.Or(os.Getenv("KLOOP_E2E_FAMILIES"), "4")

const (
	bridge = "kloop-e2e"
	router = "kloop-e2e-r"
	port   = "6443"
	grace  = 40 * time.Second // silence after which a node is lost: more than a busy machine keeps one silent
)

// A cluster under test.
type testCluster struct {
	dir        string
	bin        string
	kubeconfig string
	rest       *rest.Config
	client     *kubernetes.Clientset
	server     *exec.Cmd
	agent      *exec.Cmd // of the second node
	loops      *exec.Cmd // with the agent of the first node, where they are apart
	first      *exec.Cmd
}

// it is the one cluster that all tests share; tests that break it mend it.
var it *testCluster

func TestMain(m *testing.M) { os.Exit(runAll(m)) }

func runAll(m *testing.M) int {
	if os.Getuid() != 0 {
		fmt.Println("end-to-end tests need root; skipped")
		return need.Exit(need.Root)
	}
	dir, err := os.MkdirTemp("/var/tmp", "kloop-e2e")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	it = &testCluster{dir: dir, bin: filepath.Join(root, "bin"), kubeconfig: filepath.Join(dir, "one", "admin.kubeconfig")}
	defer os.RemoveAll(dir)
	defer it.down()
	if err := it.up(); err != nil {
		fmt.Println("start the cluster:", err)
		it.logs()
		return 1
	}
	code := m.Run()
	if code != 0 {
		it.logs()
	}
	return code
}

func sh(format string, args ...any) error {
	line := fmt.Sprintf(format, args...)
	out, err := exec.Command("sh", "-c", line).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", line, err, out)
	}
	return nil
}

// network joins the nodes by a bridge, each in its own namespace.
func network() error {
	unwire()
	if err := sh(`set -e
		ip link add %[1]s type bridge
		ip addr add 10.200.0.1/24 dev %[1]s
		ip addr add fd00:200::1/64 dev %[1]s nodad
		ip link set %[1]s up`, bridge); err != nil {
		return err
	}
	if two := &nodes[1]; routed {
		two.addr, two.addr6, two.via, two.via6 = "10.204.0.3", "fd00:201::3", "10.204.0.1", "fd00:201::1"
	}
	for i, n := range nodes {
		err := sh(`set -e
			ip netns add %[1]s
			ip link add kle2e%[2]d type veth peer name eth0 netns %[1]s
			ip link set kle2e%[2]d master %[3]s up
			ip -n %[1]s link set lo up
			ip -n %[1]s link set eth0 up
			case %[6]s in *4*) ip -n %[1]s addr add %[4]s/24 dev eth0; ip -n %[1]s route add default via %[7]s;; esac
			case %[6]s in *6*) ip -n %[1]s addr add %[5]s/64 dev eth0 nodad; ip -n %[1]s route add default via %[8]s;; esac`,
			n.ns, i, bridge, n.addr, n.addr6, families, n.via, n.via6)
		if err != nil {
			return err
		}
	}
	if routed {
		return route()
	}
	return nil
}

// route pulls the second node's cable out of the bridge and plugs it into a router.
func route() error {
	return sh(`set -e
		ip netns add %[1]s
		ip link set kle2e1 nomaster netns %[1]s
		ip link add kle2er type veth peer name eth0 netns %[1]s
		ip link set kle2er master %[2]s up
		ip -n %[1]s link set kle2e1 up
		ip -n %[1]s link set eth0 up
		ip -n %[1]s addr add 10.200.0.254/24 dev eth0
		ip -n %[1]s addr add 10.204.0.1/24 dev kle2e1
		ip -n %[1]s addr add fd00:200::fe/64 dev eth0 nodad
		ip -n %[1]s addr add fd00:201::1/64 dev kle2e1 nodad
		nsenter --net=/run/netns/%[1]s sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
		ip route add 10.204.0.0/24 via 10.200.0.254
		ip -6 route add fd00:201::/64 via fd00:200::fe
		case %[4]s in *4*) ip -n %[3]s route add 10.204.0.0/24 via 10.200.0.254;; esac
		case %[4]s in *6*) ip -n %[3]s -6 route add fd00:201::/64 via fd00:200::fe;; esac`, router, bridge, nodes[0].ns, families)
}

func unwire() {
	_ = sh("ip netns del %s; ip link del kle2er", router) // may not be there
	for i, n := range nodes {
		_ = sh("ip netns del %s", n.ns) // may not be there
		_ = sh("ip link del kle2e%d", i)
	}
	_ = sh("ip link del %s", bridge)
}

func (c *testCluster) up() error {
	if err := network(); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(c.dir, "manifests"), 0o755); err != nil {
		return err
	}
	if err := c.startServer(); err != nil {
		return err
	}
	var err error
	if c.rest, err = clientcmd.BuildConfigFromFlags("", c.kubeconfig); err != nil {
		return err
	}
	c.rest.QPS = -1
	if c.client, err = kubernetes.NewForConfig(c.rest); err != nil {
		return err
	}
	if err := c.startRest(); err != nil {
		return err
	}
	for _, tar := range []string{"nginx.tar", "nginx2.tar"} {
		if err := c.load(0, tar); err != nil {
			return err
		}
	}
	return nil
}

func (c *testCluster) load(node int, tar string) error {
	return sh("%s/kloop image load --data-dir %s %s", c.bin, c.home(node), filepath.Join(c.bin, tar))
}

// start runs a kloop command in a node's namespace and waits until it says that it is ready.
func (c *testCluster) start(node int, args ...string) (*exec.Cmd, error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd, err := c.spawn(node, args, in)
	in.Close()
	if err != nil {
		return nil, err
	}
	ready := make(chan bool, 1)
	go func() {
		defer out.Close()
		said := false
		for in := bufio.NewScanner(out); in.Scan(); {
			if !said && strings.Contains(in.Text(), "is ready") {
				said = true
				ready <- true
			}
		}
		if !said {
			ready <- false
		}
	}()
	select {
	case ok := <-ready:
		if !ok {
			return nil, fmt.Errorf("kloop %s ended: %w", args[0], cmd.Wait())
		}
		return cmd, nil
	case <-time.After(patience):
		return nil, fmt.Errorf("kloop %s did not get ready", args[0])
	}
}

// spawn runs a kloop command in a node's namespace; its output goes to out, if there is one.
func (c *testCluster) spawn(node int, args []string, out ...*os.File) (*exec.Cmd, error) {
	n := nodes[node]
	dir := filepath.Join(c.dir, n.name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	logfile, err := os.OpenFile(dir+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer logfile.Close()
	// Not `ip netns exec`: it would hide the cgroups.
	cmd := exec.Command("nsenter", append([]string{"--net=/run/netns/" + n.ns, filepath.Join(c.bin, "kloop")}, args...)...)
	cmd.Stderr = logfile
	if len(out) > 0 {
		cmd.Stdout = out[0]
	}
	return cmd, cmd.Start()
}

// apiAddress is where the first node's API listens, in the default family.
func apiAddress() string {
	if families[0] == '6' {
		return net.JoinHostPort(nodes[0].addr6, port)
	}
	return net.JoinHostPort(nodes[0].addr, port)
}

func (c *testCluster) startServer() (err error) {
	args := []string{"server", "--data-dir", filepath.Join(c.dir, "one"), "--listen", apiAddress(), "--log", "debug"}
	if apart {
		c.server, err = c.start(0, append(args, ranges("", "service-cluster-ip-range")...)...)
		return err
	}
	args = append(args, "--node", "real", "--node-name", nodes[0].name, "--node-monitor-grace", grace.String(),
		"--manifests", filepath.Join(c.dir, "manifests"), "--volume-snapshots", "--root-dir", filepath.Join(c.dir, "one", "node"))
	args[0] = "up"
	c.server, err = c.start(0, append(args, ranges("cluster-cidr", "service-cluster-ip-range")...)...)
	return err
}

// ranges are the flags, by these names, of the addresses of pods and services; those of IPv4 alone need none.
func ranges(pods, services string) (flags []string) {
	if families == "4" {
		return nil
	}
	for name, of := range map[string]map[rune]string{
		pods: {'4': "10.88.0.0/16", '6': "fd88::/56"}, services: {'4': "10.96.0.0/16", '6': "fd96::/108"}} {
		var list []string
		for _, f := range families {
			list = append(list, of[f])
		}
		if name != "" {
			flags = append(flags, "--"+name, strings.Join(list, ","))
		}
	}
	return flags
}

func (c *testCluster) startAgent(more ...string) (err error) {
	c.agent, err = c.joinAs(1, more...)
	return err
}

// joinAs runs the agent of a node.
func (c *testCluster) joinAs(node int, more ...string) (*exec.Cmd, error) {
	n := nodes[node]
	out, err := exec.Command(filepath.Join(c.bin, "kloop"), "token", "--node", "--data-dir", filepath.Join(c.dir, "one"),
		"--server", "https://"+apiAddress()).Output()
	if err != nil {
		return nil, fmt.Errorf("make a token for the node: %w: %s", err, out)
	}
	join := strings.Fields(string(out))[1:] // without the name of the program
	return c.start(node, slices.Concat(join, []string{"--name", n.name, "--data-dir", c.home(node), "--heartbeat", "1s", "--log", "debug",
		"--root-dir", filepath.Join(c.dir, n.name, "node"),
		"--image-gc-high-threshold", "100"}, more)...) // the disk is the machine's, and may be fuller than a node's is to be
}

// end stops a process: with TERM and patience, or with KILL.
func end(cmd *exec.Cmd, sig syscall.Signal) error {
	if cmd == nil || cmd.Process == nil {
		return nil
	}
	if err := cmd.Process.Signal(sig); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case <-done:
		return nil
	case <-time.After(patience):
		if err := cmd.Process.Kill(); err != nil {
			return err
		}
		<-done
		return fmt.Errorf("it did not end within %s of %s", patience, sig)
	}
}

// down stops everything, containers too: a runtime that is asked through its own files.
func (c *testCluster) down() {
	if c.client != nil {
		_, _ = c.try("delete", "pods", "--all", "-A", "--grace-period=0", "--force", "--wait=false")
		_, _ = c.try("delete", "deployments", "--all", "-A", "--wait=true", "--timeout=20s")
	}
	for _, cmd := range []*exec.Cmd{c.agent, c.first, c.loops, c.server} {
		if err := end(cmd, syscall.SIGTERM); err != nil {
			fmt.Println("stop kloop:", err)
		}
	}
	c.reap()
	unwire()
}

// reap ends what a killed kloop left behind below our directory: containerd, shims and their containers.
func (c *testCluster) reap() {
	procs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range procs {
		text, err := os.ReadFile(p)
		var pid int
		if err != nil || !bytes.Contains(text, []byte(c.dir)) {
			continue
		}
		if _, err := fmt.Sscanf(p, "/proc/%d/cmdline", &pid); err == nil && pid != os.Getpid() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	_ = sh("grep ' %s/' /proc/mounts | cut -d' ' -f2 | sort -r | xargs -r -n1 umount -l", c.dir)
}

// logs shows the end of the processes' logs, to whoever has to find out why a test failed.
func (c *testCluster) logs() {
	for _, n := range nodes {
		text, err := os.ReadFile(filepath.Join(c.dir, n.name) + ".log")
		if err != nil {
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		fmt.Printf("--- the end of the log of node %s\n%s\n", n.name, strings.Join(lines[max(0, len(lines)-60):], "\n"))
	}
}

// try runs kubectl.
func (c *testCluster) try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, errs.String())
	}
	return strings.TrimSpace(string(out)), nil
}
