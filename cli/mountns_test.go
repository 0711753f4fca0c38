package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/kloop-dev/kloop/clusters"
)

// mountNamespaces wants each node to have its name as host name, and to see its own directory as /var/lib/kubelet, in mounts of its own
// that a process started anew finds again.
func (d *desk) mountNamespaces(c *clusters.Cluster) {
	d.t.Helper()
	seen := map[string]bool{d.mounts(os.Getpid()): true}
	for n := 1; n <= c.Nodes; n++ {
		pid := d.process(c, n, 0)
		inside, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid), "root/var/lib/kubelet/plugins_registry"))
		there, bad := os.Stat(filepath.Join(c.NodeDir(n), "node/plugins_registry"))
		if err != nil || bad != nil || !os.SameFile(inside, there) {
			d.t.Errorf("node %d does not see its directory: %v, %v", n, err, bad)
		}
		if name := d.hostname(pid); name != c.NodeName(n) {
			d.t.Errorf("node %d has the host name %s", n, name)
		}
		mounts := d.mounts(pid)
		if seen[mounts] {
			d.t.Errorf("node %d shares its mounts with another, or with the machine", n)
		}
		seen[mounts] = true
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			d.t.Fatal(err)
		}
		if again := d.mounts(d.process(c, n, pid)); again != mounts {
			d.t.Errorf("node %d was started anew and has other mounts", n)
		}
	}
}

// mounts is the name of a process's mount namespace.
func (d *desk) mounts(pid int) string {
	d.t.Helper()
	name, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "ns/mnt"))
	if err != nil {
		d.t.Fatal(err)
	}
	return name
}

// hostname is the host name that a process sees.
func (d *desk) hostname(pid int) string {
	d.t.Helper()
	out, err := exec.Command("nsenter", "--uts", "--target", strconv.Itoa(pid), "hostname").Output()
	if err != nil {
		d.t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// process waits for a process of a node that is not the former one.
func (d *desk) process(c *clusters.Cluster, n, former int) int {
	d.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		list, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, path := range list {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			line, bad := os.ReadFile(path)
			if err == nil && bad == nil && pid != former && bytes.Contains(line, []byte("\x00--data-dir\x00"+c.NodeDir(n)+"\x00")) {
				return pid
			}
		}
	}
	d.t.Fatalf("node %d has no process", n)
	return 0
}
