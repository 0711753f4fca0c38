package machine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/internal/userns"
	"github.com/kloop-dev/kloop/node/cgroup"
)

// rootless says what a node lacks that runs as root of a user namespace alone, and how to have it; nil: nothing, or it is the machine's
// root. dir is the node's data directory.
func rootless(dir string) error {
	if !userns.Inside() {
		return nil
	}
	if flags := missing(owned, writable, cgroup.Root); len(flags) > 0 {
		return fmt.Errorf("this is root of a user namespace, and some of the machine is not its own: start kloop with rootlesskit "+
			"%s (docs/operations.md, Without root)", strings.Join(flags, " "))
	}
	if held := undelegated(cgroup.Root); len(held) > 0 {
		return fmt.Errorf("the cgroup controllers %s are not this user's: start with systemd-run --user --scope -p Delegate=yes; if "+
			"that does not help, put [Service] Delegate=cpu cpuset io memory pids into /etc/systemd/system/user@.service.d/delegate.conf as root, "+
			"systemctl daemon-reload, and log in anew", strings.Join(held, ", "))
	}
	for _, d := range copied {
		if in, err := filepath.Rel(d, dir); err == nil && filepath.IsLocal(in) && inMemory(dir) {
			return fmt.Errorf("%s would go with this process: rootlesskit's --copy-up=%s holds it in memory; choose a directory at home, "+
				"as --data-dir ~/.local/share/kloop", dir, d)
		}
	}
	return nil
}

// copied are the directories that a node and its runtime write to by their names.
var copied = []string{"/etc", "/run", "/var/lib", "/var/log"}

// missing are the flags of rootlesskit without which a node can't be. own says whether a namespace is of the user namespace, can whether a
// directory may be written to.
func missing(own, can func(string) bool, root string) (flags []string) {
	for _, ns := range []struct{ name, flag string }{{"net", "--net=slirp4netns"}, {"pid", "--pidns"}, {"cgroup", "--cgroupns"},
		{"ipc", "--ipcns"}, {"uts", "--utsns"}} {
		if !own(ns.name) {
			flags = append(flags, ns.flag)
		}
	}
	for _, dir := range copied {
		if !can(dir) {
			flags = append(flags, "--copy-up="+dir)
		}
	}
	// A process outside of our PID namespace has no number here, and can't be moved: the group hands no controllers on while it is there.
	procs, _ := os.ReadFile(filepath.Join(root, "cgroup.procs")) // who lacks version 2 hears of that
	if slices.Contains(strings.Fields(string(procs)), "0") {
		flags = append(flags, "--evacuate-cgroup2=rootlesskit")
	}
	return flags
}

// undelegated are the controllers that limits of pods need and that are not ours.
func undelegated(root string) []string {
	have, _ := os.ReadFile(filepath.Join(root, "cgroup.controllers")) // version 1 has no such file, and is never handed to a user
	return slices.DeleteFunc([]string{"cpu", "memory", "pids"}, func(c string) bool {
		return slices.Contains(strings.Fields(string(have)), c)
	})
}

// owned says whether a namespace of this process was made in its user namespace: the kernel tells of no other's owner.
func owned(name string) bool {
	f, err := os.Open("/proc/self/ns/" + name)
	if err != nil {
		return true // a kernel without
	}
	defer f.Close()
	owner, err := unix.IoctlRetInt(int(f.Fd()), unix.NS_GET_USERNS)
	if err == nil {
		err = unix.Close(owner)
	}
	return !errors.Is(err, unix.EPERM)
}

func writable(dir string) bool { return unix.Access(dir, unix.W_OK) == nil }

// inMemory says whether a directory, or the nearest above it that there is, lies in memory.
func inMemory(dir string) bool {
	var fs unix.Statfs_t
	for unix.Statfs(dir, &fs) != nil && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
	}
	return fs.Type == unix.TMPFS_MAGIC
}
