//go:build e2e

package servers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/kloop-dev/kloop/test/need"
)

// An etcd is a member of upstream's etcd, beside a server.
type etcd struct {
	m       *machine
	cluster string
	cmd     *exec.Cmd
}

func (e *etcd) start() {
	e.m.t.Helper()
	logfile, err := os.OpenFile(e.m.dir+".etcd.log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	must(e.m.t, err)
	defer logfile.Close()
	clients, peers := "http://"+e.m.addr+":2379", "http://"+e.m.addr+":2380"
	e.cmd = exec.Command("nsenter", "--net=/run/netns/"+e.m.ns, "etcd", "--name", e.m.name, "--data-dir", e.m.dir+".etcd",
		"--initial-cluster", e.cluster,
		"--listen-client-urls", clients, "--advertise-client-urls", clients, "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers)
	e.cmd.Stdout, e.cmd.Stderr = logfile, logfile
	must(e.m.t, e.cmd.Start())
}

func (e *etcd) kill() {
	if e.cmd != nil {
		_ = e.cmd.Process.Signal(syscall.SIGKILL)
		_ = e.cmd.Wait() // it was killed
		e.cmd = nil
	}
}

// Three servers use an etcd cluster of upstream's: the servers and the members of the cluster are killed, and machines with one
// of each are cut off. What TestKillAndCutOff says of clients holds here too.
func TestEtcdElsewhere(t *testing.T) {
	_, err := exec.LookPath("etcd") // scripts/runtime etcd=etcd-server installs the distribution's
	need.Have(t, need.Etcd, err)
	m := wire(t, 3)
	var cluster, clients []string
	for _, x := range m {
		cluster = append(cluster, fmt.Sprintf("%s=http://%s:2380", x.name, x.addr))
		clients = append(clients, "http://"+x.addr+":2379")
	}
	members := map[*machine]*etcd{}
	t.Cleanup(func() {
		stopAll(t, m)
		for _, e := range members {
			e.kill()
		}
	})
	for _, x := range m {
		members[x] = &etcd{m: x, cluster: strings.Join(cluster, ",")}
		members[x].start()
	}
	for i, x := range m {
		x.args = []string{"--etcd-servers", strings.Join(clients, ",")}
		if i > 0 {
			must(t, os.MkdirAll(x.dir, 0o755))
			must(t, os.CopyFS(filepath.Join(x.dir, "pki"), os.DirFS(filepath.Join(m[0].dir, "pki"))))
		}
		x.start()
		x.connect()
	}
	underFire(t, m, func(x, other *machine, round int) {
		x.kill()
		works(t, other, fmt.Sprint("killed-", round))
		x.start()
		members[x].kill()
		works(t, x, fmt.Sprint("beside-a-killed-member-", round))
		members[x].start()
		other.cut()
		works(t, x, fmt.Sprint("cut-", round))
		silent(t, other)
		other.mend()
		works(t, other, fmt.Sprint("mended-", round))
	})
}
