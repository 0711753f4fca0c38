package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Use holds the kernel's counts for a group, beside those that runtimes tell. What it does not count is missing from the maps.
type Use struct {
	// Counts are by name: nr_periods, nr_throttled, throttled_ns (of the CPU quota); cache, mapped, swap (bytes of memory), failures
	// (how often memory was short), killed (processes, for want of it), peak (the most memory that was in use), threads.
	Counts map[string]uint64
	Disks  map[string]Disk // by device: /dev/sda
	Pid    int             // of one of its processes; 0: it has none
}

// A Disk counts reads and writes of one, in operations and bytes.
type Disk struct{ Reads, Writes, ReadBytes, WriteBytes uint64 }

// Use reads what was counted for a pod, and for each group below it by its name, which is a container's id.
func (t *Tree) Use(class corev1.PodQOSClass, uid types.UID) (pod Use, below map[string]Use) {
	group := t.Pod(class, uid)
	dir := filepath.Join(t.dir("memory"), group)
	below = map[string]Use{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return Use{}, below // it has ended
	}
	pod = t.use(group)
	for _, e := range entries {
		if e.IsDir() {
			u := t.use(filepath.Join(group, e.Name()))
			below[container(e.Name())] = u
			if pod.Pid == 0 {
				pod.Pid = u.Pid
			}
		}
	}
	return pod, below
}

// dir is the directory of a controller's groups.
func (t *Tree) dir(controller string) string {
	if t.Unified() {
		return t.unified
	}
	return t.of[controller]
}

func (t *Tree) use(group string) Use {
	u := Use{Counts: map[string]uint64{}, Disks: map[string]Disk{}}
	file := func(controller, name string) string { return filepath.Join(t.dir(controller), group, name) }
	pids, _ := os.ReadFile(file("memory", "cgroup.procs")) // a group that went has no processes
	first, _, _ := strings.Cut(string(pids), "\n")
	u.Pid, _ = strconv.Atoi(first)
	if t.Unified() {
		u.take(file("", "cpu.stat"), map[string]string{"nr_periods": "nr_periods", "nr_throttled": "nr_throttled",
			"throttled_usec": "throttled_ns"})
		if n, ok := u.Counts["throttled_ns"]; ok {
			u.Counts["throttled_ns"] = n * 1000
		}
		u.take(file("", "memory.stat"), map[string]string{"file": "cache", "file_mapped": "mapped"})
		u.take(file("", "memory.events"), map[string]string{"max": "failures", "oom_kill": "killed"})
		u.number(file("", "memory.peak"), "peak")
		u.number(file("", "pids.current"), "threads")
		u.number(file("", "memory.swap.current"), "swap")
		u.unifiedDisks(file("", "io.stat"))
		return u
	}
	u.take(file("cpu", "cpu.stat"), map[string]string{"nr_periods": "nr_periods", "nr_throttled": "nr_throttled",
		"throttled_time": "throttled_ns"})
	u.take(file("memory", "memory.stat"), map[string]string{"total_cache": "cache", "total_mapped_file": "mapped", "total_swap": "swap"})
	u.number(file("memory", "memory.failcnt"), "failures")
	u.take(file("memory", "memory.oom_control"), map[string]string{"oom_kill": "killed"})
	u.number(file("memory", "memory.max_usage_in_bytes"), "peak")
	u.number(file("pids", "pids.current"), "threads")
	u.disks(file("blkio", "blkio.throttle.io_serviced_recursive"), func(d *Disk) (r, w *uint64) { return &d.Reads, &d.Writes })
	u.disks(file("blkio", "blkio.throttle.io_service_bytes_recursive"), func(d *Disk) (r, w *uint64) { return &d.ReadBytes, &d.WriteBytes })
	return u
}

// take reads lines of a name and a number, as far as they are wanted.
func (u *Use) take(path string, want map[string]string) {
	text, err := os.ReadFile(path)
	if err != nil {
		return // not counted here
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if as, ok := want[name]; ok {
			if n, err := strconv.ParseUint(value, 10, 64); err == nil {
				u.Counts[as] = n
			}
		}
	}
}

func (u *Use) number(path, as string) {
	text, err := os.ReadFile(path)
	if err != nil {
		return
	}
	if n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil {
		u.Counts[as] = n
	}
}

// unifiedDisks reads lines like: 8:0 rbytes=1 wbytes=2 rios=3 wios=4.
func (u *Use) unifiedDisks(path string) {
	text, _ := os.ReadFile(path)
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		var d Disk
		of := map[string]*uint64{"rios": &d.Reads, "wios": &d.Writes, "rbytes": &d.ReadBytes, "wbytes": &d.WriteBytes}
		for _, pair := range f[1:] {
			name, value, _ := strings.Cut(pair, "=")
			if p := of[name]; p != nil {
				*p, _ = strconv.ParseUint(value, 10, 64)
			}
		}
		u.Disks[device(f[0])] = d
	}
}

// disks reads lines like: 8:0 Read 3.
func (u *Use) disks(path string, of func(*Disk) (reads, writes *uint64)) {
	text, _ := os.ReadFile(path)
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 3 || f[1] != "Read" && f[1] != "Write" {
			continue
		}
		name := device(f[0])
		d := u.Disks[name]
		r, w := of(&d)
		if f[1] == "Write" {
			r = w
		}
		*r, _ = strconv.ParseUint(f[2], 10, 64)
		u.Disks[name] = d
	}
}

// device is the name of a block device, from its numbers; those where it has none.
func device(numbers string) string {
	text, _ := os.ReadFile(filepath.Join("/sys/dev/block", filepath.Base(numbers), "uevent"))
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "DEVNAME="); ok {
			return "/dev/" + name
		}
	}
	return numbers
}
