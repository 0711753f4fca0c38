package clusters

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kloop-dev/kloop/node/rootdir"
)

// Where a node leaves traces beside its directory.
const (
	cgroups  = "/sys/fs/cgroup"
	podLogs  = "/var/log/pods"
	cniCache = "/var/lib/cni/results"
	shims    = "/run/containerd/s"
	logLinks = "/var/log/containers"
)

// Sweep ends every process of the nodes below a directory, containers and shims too, and removes their mounts, cgroups and logs.
// Files below the directory stay. It returns what could not be removed, in words; an error says that processes or mounts are left.
func Sweep(dir string) (left []string, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	pods, sockets := podsBelow(dir), shimSockets(dir)
	if err := endProcesses(dir, pods); err != nil {
		return nil, err
	}
	for _, d := range append(agentRoots(dir), dir) {
		if err := unmountBelow(d); err != nil {
			return nil, err
		}
	}
	left = append(dropGroups(pods), stopSlices(pods)...)
	for uid := range pods {
		logs, _ := filepath.Glob(filepath.Join(podLogs, "*_"+uid)) // fails on bad patterns only
		for _, path := range logs {
			if err := os.RemoveAll(path); err != nil {
				left = append(left, err.Error())
			}
		}
	}
	for _, path := range append(sockets, cachedFor(pods)...) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			left = append(left, err.Error())
		}
	}
	dropLinks()
	return left, nil
}

// shimSockets are those of containerd 1: they lie beside all others of the machine. Each container's bundle names its shim's.
func shimSockets(dir string) (list []string) {
	for _, pattern := range []string{"runtime", "*/runtime"} {
		names, _ := filepath.Glob(filepath.Join(dir, pattern, "state/io.containerd.runtime.v2.task/*/*/address")) // fails on bad patterns only
		for _, name := range names {
			text, err := os.ReadFile(name)
			if path, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "unix://"); err == nil && ok &&
				strings.HasPrefix(path, shims+"/") {
				list = append(list, path)
			}
		}
	}
	return list
}

// cachedFor are the files in which the CNI library remembers the networks of pods.
func cachedFor(pods map[string]bool) (list []string) {
	files, _ := os.ReadDir(cniCache) // there is none where no pod ran
	for _, f := range files {
		path := filepath.Join(cniCache, f.Name())
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		var kept struct{ CNIArgs [][]string }
		if json.Unmarshal(text, &kept) != nil {
			continue
		}
		for _, arg := range kept.CNIArgs {
			if len(arg) == 2 && arg[0] == "K8S_POD_UID" && pods[arg[1]] {
				list = append(list, path)
			}
		}
	}
	return list
}

// agentRoots are the root directories of nodes below a directory that lie elsewhere, as /var/lib/kubelet. One that another agent works
// in by now is none.
func agentRoots(dir string) (list []string) {
	for _, pattern := range []string{"node", "*/node"} {
		links, _ := filepath.Glob(filepath.Join(dir, pattern)) // fails on bad patterns only
		for _, path := range links {
			if info, err := os.Lstat(path); err != nil || info.Mode()&fs.ModeSymlink == 0 {
				continue
			}
			if to, err := filepath.EvalSymlinks(path); err == nil && !rootdir.Held(to) {
				list = append(list, to)
			}
		}
	}
	return list
}

// podsBelow are the uids of the pods that nodes below a directory keep something of. Those of another agent, which works by now where one
// of these nodes did, are none.
func podsBelow(dir string) map[string]bool {
	pods := map[string]bool{}
	for _, pattern := range []string{"node", "*/node"} {
		nodes, _ := filepath.Glob(filepath.Join(dir, pattern)) // fails on bad patterns only
		for _, node := range nodes {
			info, err := os.Lstat(node)
			if err != nil || info.Mode()&fs.ModeSymlink != 0 && rootdir.Held(node) {
				continue
			}
			list, _ := os.ReadDir(filepath.Join(node, "pods")) // there are none where no pod ran
			for _, p := range list {
				pods[p.Name()] = true
			}
		}
	}
	return pods
}

// ours says that a process is one of kloop, a runtime or a shim that works below the directory, or runs in the cgroup of a pod.
func ours(pid int, dir string, pods map[string]bool) bool {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	if groups, err := os.ReadFile(filepath.Join(proc, "cgroup")); err == nil {
		for part := range strings.FieldsFuncSeq(string(groups), func(r rune) bool { return r == '/' || r == '\n' }) {
			if uid, ok := podOf(part); ok && pods[uid] {
				return true
			}
		}
	}
	name, err := os.ReadFile(filepath.Join(proc, "comm"))
	if exe, _ := os.Readlink(filepath.Join(proc, "exe")); exe != "" && exe == self() {
		name = []byte("kloop") // under whatever name it was installed
	}
	if err != nil || !slices.ContainsFunc([]string{"containerd", "kloop", "runc", "ctr"},
		func(s string) bool { return strings.HasPrefix(string(name), s) }) {
		return false
	}
	line, err := os.ReadFile(filepath.Join(proc, "cmdline"))
	return err == nil && names(line, dir)
}

// names says that a command line has a path below the directory: one that begins with it, not one that has it in its middle.
func names(line []byte, dir string) bool {
	want := []byte(dir + "/")
	for at := 0; ; at++ {
		next := bytes.Index(line[at:], want)
		if next < 0 {
			return false
		}
		if at += next; at == 0 || bytes.IndexByte([]byte("\x00 =:,;\"'"), line[at-1]) >= 0 {
			return true
		}
	}
}

// self is the program that runs.
var self = sync.OnceValue(func() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	return path
})

// endProcesses kills what is ours until nothing is: a supervisor may start another while we look. This process and those that started
// it are not.
func endProcesses(dir string, pods map[string]bool) error {
	spared := ancestors()
	var list []int
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		procs, err := os.ReadDir("/proc")
		if err != nil {
			return err
		}
		list = list[:0]
		for _, p := range procs {
			pid, err := strconv.Atoi(p.Name())
			if err == nil && !spared[pid] && ours(pid, dir, pods) {
				list = append(list, pid)
				_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
			}
		}
		if len(list) == 0 {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("processes of %s do not end: %v", dir, list)
}

// ancestors are this process and those that started it.
func ancestors() map[int]bool {
	all := map[int]bool{}
	for pid := os.Getpid(); pid > 0 && !all[pid]; {
		all[pid] = true
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			break
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 2 {
			break
		}
		if pid, err = strconv.Atoi(fields[1]); err != nil {
			break
		}
	}
	return all
}

// unmountBelow lets go of every mount below a directory, the inner ones first. File systems that somebody keeps there stay.
func unmountBelow(dir string) error {
	for range 10 { // mounts may lie over each other
		table, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			return err
		}
		list := mountsBelow(string(table), dir)
		if len(list) == 0 {
			return nil
		}
		slices.SortFunc(list, func(a, b string) int { return len(b) - len(a) })
		for _, path := range list {
			if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
				return fmt.Errorf("unmount %s: %w", path, err)
			}
		}
	}
	return fmt.Errorf("there are ever more mounts below %s", dir)
}

// mountsBelow are the mounts at and below a directory that a node, its pods and its runtime made, as a table of mounts has them. A file
// system of its own that is mounted at the directory, or right below it, is somebody's disk: kloop mounts there nothing but a directory on
// itself.
func mountsBelow(table, dir string) (list []string) {
	devices, disks := map[string]string{}, map[string]bool{} // by mount point: what lies on top
	for line := range strings.Lines(table) {
		fields := strings.Fields(line) // id, parent, device, root, mount point, …
		if len(fields) < 5 {
			continue
		}
		path := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(fields[4])
		near := path == dir || filepath.Dir(path) == dir
		switch {
		case near && !disks[path] && deviceOf(devices, path) != fields[2]:
			disks[path] = true
		case path == dir, strings.HasPrefix(path, dir+"/"):
			list = append(list, path)
		}
		devices[path] = fields[2]
	}
	return list
}

// deviceOf is that of the file system on which a path lies.
func deviceOf(devices map[string]string, path string) string {
	for ; ; path = filepath.Dir(path) {
		if d, ok := devices[path]; ok || path == "/" {
			return d
		}
	}
}

// dropGroups removes the cgroups of pods, and those above them when they are empty.
func dropGroups(pods map[string]bool) (left []string) {
	for _, pattern := range []string{"kubepods", "*/kubepods", "*/*/kubepods"} {
		tops, _ := filepath.Glob(filepath.Join(cgroups, pattern)) // fails on bad patterns only
		for _, top := range tops {
			var list []string
			_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error { // what goes while we look is gone
				uid, isPod := strings.CutPrefix(filepath.Base(path), "pod")
				if err == nil && d.IsDir() && isPod && pods[uid] {
					list = append(list, path)
					return fs.SkipDir
				}
				return nil
			})
			for _, path := range list {
				if err := dropGroup(path); err != nil {
					left = append(left, err.Error())
				}
			}
			for _, above := range []string{"burstable", "besteffort", ""} {
				_ = unix.Rmdir(filepath.Join(top, above)) // another cluster's pods may be in it
			}
			if own := filepath.Dir(top); strings.HasPrefix(filepath.Base(own), strings.TrimPrefix(groupPrefix, "/")) {
				_ = unix.Rmdir(own)
			}
		}
	}
	return left
}

// dropGroup removes a cgroup and those inside it. Its processes were killed, and are reaped in a moment.
func dropGroup(path string) error {
	var inner []string
	_ = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error { // what goes while we look is gone
		if err == nil && d.IsDir() {
			inner = append(inner, p)
		}
		return nil
	})
	slices.Reverse(inner)
	var err error
	for range 200 {
		err = nil
		for _, p := range inner {
			if e := unix.Rmdir(p); e != nil && !errors.Is(e, unix.ENOENT) {
				err = fmt.Errorf("remove the cgroup %s: %w", p, e)
			}
		}
		if err == nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

// dropLinks removes the links to logs that are gone, and the directories of logs when nothing is in them.
func dropLinks() {
	links, err := os.ReadDir(logLinks)
	if err != nil {
		return
	}
	for _, l := range links {
		path := filepath.Join(logLinks, l.Name())
		to, err := os.Readlink(path)
		if _, gone := os.Stat(to); err == nil && strings.HasPrefix(to, podLogs+"/") && errors.Is(gone, fs.ErrNotExist) {
			_ = os.Remove(path) // the next sweep tries again
		}
	}
	_, _ = unix.Rmdir(logLinks), unix.Rmdir(podLogs)
}
