package torture

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kloop-dev/kloop/apply"
	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kit/whole"
	"github.com/kloop-dev/kloop/test/port"
)

// The variables make this test binary a server on a data directory; see TestMain.
const (
	serverDir  = "KLOOP_TORTURE_DIR"
	serverAddr = "KLOOP_TORTURE_ADDR"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(serverDir); dir != "" {
		c, err := cluster.Start(context.Background(), cluster.Config{Kit: whole.Kit(),
			DataDir: dir, Listen: os.Getenv(serverAddr), NoLoops: true})
		if err == nil {
			fmt.Println("ready")
			err = c.Wait()
		}
		fmt.Println("error", err)
		os.Exit(1)
	}
	if err := ownMounts(); err != nil {
		fmt.Println("mounts of its own:", err)
		os.Exit(1)
	}
	apply.BoundCopies() // as the program does
	os.Exit(m.Run())
}

// patience is how long anything may take on a machine with much else to do.
const patience = 10 * time.Minute

// A victim is a server in a process of its own.
type victim struct {
	t    *testing.T
	dir  string
	addr string
	cmd  *exec.Cmd
	off  atomic.Bool // its power is being cut
}

// newVictim chooses an address that the server keeps over its restarts.
func newVictim(t *testing.T, dir string) *victim {
	t.Helper()
	v := &victim{t: t, dir: dir, addr: port.Held(t)}
	t.Cleanup(v.kill)
	return v
}

// start returns when the server is ready.
func (v *victim) start() {
	v.t.Helper()
	v.off.Store(false)
	said := v.launch()
	select {
	case text := <-said:
		if !strings.HasPrefix(text, "ready") {
			v.t.Fatalf("the server ends: %s", text)
		}
	case <-time.After(patience):
		v.t.Fatal("the server does not start")
	}
}

// launch begins a start, and returns where the server says what became of it.
func (v *victim) launch() <-chan string {
	v.t.Helper()
	self, err := os.Executable()
	if err != nil {
		v.t.Fatal(err)
	}
	v.cmd = exec.Command(self)
	v.cmd.Env = append(os.Environ(), serverDir+"="+v.dir, serverAddr+"="+v.addr)
	v.cmd.Stderr = v.t.Output()
	out, err := v.cmd.StdoutPipe()
	if err != nil {
		v.t.Fatal(err)
	}
	if err := v.cmd.Start(); err != nil {
		v.t.Fatal(err)
	}
	said := make(chan string, 1)
	go func() {
		in := bufio.NewScanner(out)
		in.Scan()
		said <- in.Text()
	}()
	return said
}

func (v *victim) kill() {
	if v.cmd != nil {
		_ = v.cmd.Process.Kill()
		_ = v.cmd.Wait() // it was killed
		v.cmd = nil
	}
}

func (v *victim) config() *rest.Config {
	v.t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(v.dir, "admin.kubeconfig"))
	if err != nil {
		v.t.Fatal(err)
	}
	cfg.QPS = -1
	return cfg
}

func (v *victim) client() *kubernetes.Clientset { return kubernetes.NewForConfigOrDie(v.config()) }
