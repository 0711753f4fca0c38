//go:build e2e

package servers

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kloop-dev/kloop/test/need"
)

const bridge = "kloop-srv"

// A machine is a network namespace with a server in it.
type machine struct {
	t        *testing.T
	ns, link string // the namespace, and the end of its wire at the bridge
	addr     string
	name     string
	dir      string
	program  string
	args     []string
	cmd      *exec.Cmd
	client   *kubernetes.Clientset // reaches the server from within the namespace
}

func sh(format string, args ...any) error {
	line := fmt.Sprintf(format, args...)
	if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", line, err, out)
	}
	return nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wire joins n namespaces by a bridge.
func wire(t *testing.T, n int) (list []*machine) {
	t.Helper()
	need.BeRoot(t)
	for i := range n {
		list = append(list, &machine{t: t, ns: fmt.Sprintf("kloop-srv-%d", i), link: fmt.Sprintf("klsrv%d", i),
			addr: fmt.Sprintf("10.203.0.%d", i+2),
			name: fmt.Sprint("s", i), dir: filepath.Join(t.TempDir(), fmt.Sprint(i)), program: before(t)})
	}
	unwire(list)
	t.Cleanup(func() { unwire(list) })
	must(t, sh("ip link add %s type bridge && ip link set %s up", bridge, bridge))
	for _, m := range list {
		must(t, sh(`set -e
			ip netns add %[1]s
			ip link add %[2]s type veth peer name eth0 netns %[1]s
			ip link set %[2]s master %[3]s up
			ip -n %[1]s addr add %[4]s/24 dev eth0
			ip -n %[1]s link set lo up
			ip -n %[1]s link set eth0 up`, m.ns, m.link, bridge, m.addr))
	}
	return list
}

func unwire(list []*machine) {
	for _, m := range list {
		_ = sh("ip netns del %s", m.ns) // may not be there
		_ = sh("ip link del %s", m.link)
	}
	_ = sh("ip link del %s", bridge)
}

func (m *machine) cut()  { must(m.t, sh("ip link set %s down", m.link)) }
func (m *machine) mend() { must(m.t, sh("ip link set %s up", m.link)) }

// kloop is the binary under test.
func kloop(t *testing.T) string {
	if path := os.Getenv("KLOOP"); path != "" {
		return path
	}
	path, err := filepath.Abs("../../../bin/kloop")
	must(t, err)
	return path
}

// before is the program that servers start with: scripts/upgrade names an earlier one.
func before(t *testing.T) string {
	if path := os.Getenv("KLOOP_BEFORE"); path != "" {
		return path
	}
	return kloop(t)
}

// start runs the server and waits until it says that it is ready.
func (m *machine) start() {
	m.t.Helper()
	must(m.t, os.MkdirAll(m.dir, 0o755))
	logfile, err := os.OpenFile(m.dir+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	must(m.t, err)
	defer logfile.Close()
	args := append([]string{"--net=/run/netns/" + m.ns, m.program, "up", "--node", "none", "--data-dir", m.dir, "--listen",
		m.addr + ":6443"}, m.args...)
	m.cmd = exec.Command("nsenter", args...)
	m.cmd.Stderr = logfile
	out, err := m.cmd.StdoutPipe()
	must(m.t, err)
	must(m.t, m.cmd.Start())
	ready := make(chan bool, 1)
	go func() {
		for in := bufio.NewScanner(out); in.Scan(); {
			if strings.Contains(in.Text(), "is ready") {
				ready <- true
			}
		}
		ready <- false
	}()
	select {
	case ok := <-ready:
		if !ok {
			m.t.Fatalf("server %s ended: %v\n%s", m.name, m.cmd.Wait(), m.log())
		}
	case <-time.After(patience):
		m.t.Fatalf("server %s did not get ready\n%s", m.name, m.log())
	}
}

// log is the end of what the server wrote.
func (m *machine) log() string {
	text, _ := os.ReadFile(m.dir + ".log")
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}

func (m *machine) kill() {
	if m.cmd != nil {
		_ = m.cmd.Process.Signal(syscall.SIGKILL)
		_ = m.cmd.Wait() // it was killed
		m.cmd = nil
	}
}

func (m *machine) stop() {
	if m.cmd == nil {
		return
	}
	_ = m.cmd.Process.Signal(syscall.SIGTERM)
	ended := time.AfterFunc(30*time.Second, func() { _ = m.cmd.Process.Kill() })
	defer ended.Stop()
	_ = m.cmd.Wait()
	m.cmd = nil
}

// connect makes the client. Its connections are of the machine's own namespace: they outlive its being cut off.
func (m *machine) connect() {
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(m.dir, "admin.kubeconfig"))
	must(m.t, err)
	cfg.QPS = -1
	cfg.Dial = m.dial
	m.client, err = kubernetes.NewForConfig(cfg)
	must(m.t, err)
}

func (m *machine) dial(ctx context.Context, network, addr string) (conn net.Conn, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine, and its namespace with it
		var f *os.File
		if f, err = os.Open("/run/netns/" + m.ns); err != nil {
			return
		}
		defer f.Close()
		if err = unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
			return
		}
		var d net.Dialer
		conn, err = d.DialContext(ctx, network, addr)
	}()
	<-done
	return conn, err
}

// three starts three servers, the second and third of which join the first.
func three(t *testing.T) []*machine {
	t.Helper()
	list := wire(t, 3)
	t.Cleanup(func() { stopAll(t, list) })
	for _, m := range list {
		m.args = []string{"--peer-listen", m.addr + ":2380", "--member-name", m.name}
	}
	list[0].start()
	for _, m := range list[1:] {
		token, err := exec.Command(list[0].program, "token", "--data-dir", list[0].dir).Output()
		must(t, err)
		m.args = append(m.args, "--join", "https://"+list[0].addr+":6443", "--token", strings.TrimSpace(string(token)))
		m.start()
	}
	for _, m := range list {
		m.connect()
	}
	return list
}

// stopAll stops the servers in reverse, and tells what they said if the test failed.
func stopAll(t *testing.T, list []*machine) {
	for _, m := range slices.Backward(list) {
		m.stop()
		if t.Failed() {
			t.Logf("the end of the log of %s:\n%s", m.name, m.log())
		}
	}
}
