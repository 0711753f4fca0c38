package clusters

import (
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/node/rootdir"
)

// agentRoot is the path of the agent's root directory on every node: drivers, device plugins and log shippers know no other.
const agentRoot = rootdir.Usual

// makeMountNamespaces makes those of the nodes. They live as long as this process keeps them open or a process is in them: a node's
// process that is started anew finds what was mounted before.
func makeMountNamespaces(c *Cluster) error {
	if err := os.MkdirAll(agentRoot, 0o750); err != nil {
		return err
	}
	for n := 1; n <= c.Nodes; n++ {
		if err := os.MkdirAll(c.rootDir(n), 0o750); err != nil {
			return err
		}
		ns, err := newMountNamespace(c.rootDir(n))
		if err != nil {
			return fmt.Errorf("make the mounts of node %d: %w", n, err)
		}
		c.mountNS = append(c.mountNS, ns)
	}
	return nil
}

// newMountNamespace makes one in which a directory is the agent's root. What the machine mounts shows there, and nothing that is
// mounted there shows elsewhere; within, mounts are shared, as on a node of its own.
func newMountNamespace(dir string) (ns *os.File, err error) {
	err = thread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("make a mount namespace: %w", err)
		}
		for _, m := range []struct {
			from, to string
			flags    uintptr
		}{{"", "/", unix.MS_REC | unix.MS_SLAVE}, {dir, agentRoot, unix.MS_BIND}, {"", "/", unix.MS_REC | unix.MS_SHARED}} {
			if err := unix.Mount(m.from, m.to, "", m.flags, ""); err != nil {
				return fmt.Errorf("mount %s on %s: %w", m.from, m.to, err)
			}
		}
		ns, err = os.Open(fmt.Sprintf("/proc/self/task/%d/ns/mnt", unix.Gettid()))
		return err
	})
	return ns, err
}

// closeMountNamespaces lets go of the nodes' mounts.
func closeMountNamespaces(c *Cluster) {
	for _, ns := range c.mountNS {
		ns.Close()
	}
	c.mountNS = nil
}

// spawn starts a process of a node, in the node's namespaces. Its host name, which pods on the host's network have too, is the node's name.
// It sees the machine's files and cgroups.
func spawn(c *Cluster, cmd *exec.Cmd, n int) error {
	if c.Simulated {
		return apart(cmd)
	}
	ns, err := os.Open(c.namespace(n))
	if err != nil {
		return fmt.Errorf("open the node's network: %w", err)
	}
	defer ns.Close()
	if cmd.Dir, err = os.Getwd(); err != nil { // entering a mount namespace leads to its root
		return err
	}
	return within(ns, func() error {
		if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWUTS); err != nil {
			return err
		}
		if err := unix.Sethostname([]byte(c.NodeName(n))); err != nil {
			return fmt.Errorf("name the node's machine: %w", err)
		}
		if err := unix.Setns(int(c.mountNS[n-1].Fd()), unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("enter the node's mounts: %w", err)
		}
		return apart(cmd)
	})
}
