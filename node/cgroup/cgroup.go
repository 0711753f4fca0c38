// Package cgroup keeps the agent's tree of control groups: kubepods, its classes of service, and one group for each pod.
// The runtime makes the containers' groups below a pod's and never looks above them.
//
//	/kubepods[/burstable|/besteffort]/pod<UID>[/<container>]
//
// The names are those of the kubelet's cgroupfs driver; where systemd makes the groups, those of its systemd driver. Version 1 (a
// hierarchy for each controller) and version 2 (one for all) are both written; which one a machine has is seen by its files.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Root is the usual mount point of cgroups.
const Root = "/sys/fs/cgroup"

// Pods is the usual name of the group of all pods.
const Pods = "kubepods"

// A Tree is the part of the machine's cgroups that holds pods. It is safe for concurrent use on different pods.
type Tree struct {
	name    string            // of the group of all pods: kubepods, or a path that ends so
	unified string            // version 2: where the one hierarchy is mounted; "": version 1
	of      map[string]string // version 1: controller → where its hierarchy is mounted
	slices  Slices            // of systemd, which makes the groups; nil: they are made by hand

	// Observe hears how long it took to create, update or destroy a group; nil: nobody asks.
	Observe func(what string, took time.Duration)
}

// observe begins to time work on a group. The function that it returns ends that.
func (t *Tree) observe(what string) func() {
	began := time.Now()
	return func() {
		if t.Observe != nil {
			t.Observe(what, time.Since(began))
		}
	}
}

// Open looks at what is mounted at root. It changes nothing; where there are no cgroups, the Tree does nothing.
func Open(root, name string) *Tree {
	t := &Tree{name: name, of: map[string]string{}}
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		t.unified = root
		return t
	}
	mounts, _ := filepath.Glob(filepath.Join(root, "*/cgroup.procs")) // fails on bad patterns only
	for _, m := range mounts {
		dir := filepath.Dir(m)
		if real, err := filepath.EvalSymlinks(dir); err == nil { // cpu -> cpu,cpuacct
			dir = real
		}
		for controller := range strings.SplitSeq(filepath.Base(dir), ",") {
			t.of[controller] = dir
		}
	}
	return t
}

// Unified says that the machine has cgroup version 2.
func (t *Tree) Unified() bool { return t.unified != "" }

// Pods is the group of all pods.
func (t *Tree) Pods() string { return t.group() }

// Class is the group of all pods of a class of service. Guaranteed ones have none of their own.
func (t *Tree) Class(c corev1.PodQOSClass) string { return t.group(class(c)...) }

// Pod is the pod's group, the parent of its containers'.
func (t *Tree) Pod(c corev1.PodQOSClass, uid types.UID) string {
	return t.group(append(class(c), "pod"+string(uid))...)
}

func class(c corev1.PodQOSClass) []string {
	switch c {
	case corev1.PodQOSBurstable:
		return []string{"burstable"}
	case corev1.PodQOSBestEffort:
		return []string{"besteffort"}
	}
	return nil
}

// Values are the limits of a group. What is nil stays as it is.
type Values struct {
	Shares *uint64 // weight of the CPU, as version 1 counts it: 1024 for each CPU asked for
	Quota  *int64  // microseconds of CPU in each 100 ms; -1: no limit
	Memory *int64  // bytes; -1: no limit
	Pids   *int64  // processes; -1: no limit

	Min, Low, High *int64 // bytes of memory that are kept, kept if possible, and slowed down above; -1: none. Version 2 only

	Huge map[string]int64 // bytes of huge pages by their size, as the kernel names it: 2MB; -1: no limit
}

// Period is the time that a quota of CPU is for, in microseconds.
const Period = 100000

// Set makes the group where it is not there, and gives it the values. Controllers that the machine lacks are left out.
func (t *Tree) Set(group string, v Values) error {
	what := "create"
	if _, err := os.Stat(filepath.Join(t.dir("memory"), group)); err == nil {
		what = "update"
	}
	defer t.observe(what)()
	if t.slices != nil {
		if err := t.slices.Set(path.Base(group), t.properties(v)); err != nil {
			return err
		}
	}
	if t.Unified() {
		return t.setUnified(group, v)
	}
	list := []setting{
		{"cpu", "cpu.shares", unsigned(v.Shares)}, {"cpu", "cpu.cfs_period_us", onlyWith(v.Quota, Period)},
		{"cpu", "cpu.cfs_quota_us", signed(v.Quota, "-1")},
		{"memory", "memory.limit_in_bytes", signed(v.Memory, "-1")}, {"pids", "pids.max", signed(v.Pids, "max")},
	}
	for _, s := range append(list, huge(v, "limit_in_bytes", "-1")...) {
		root, ok := t.of[s.controller]
		if !ok || s.value == "" {
			continue
		}
		if err := put(filepath.Join(root, group), s.file, s.value); err != nil {
			return err
		}
	}
	return nil
}

// A setting is a file of a group, and what is to stand in it; "": nothing.
type setting struct{ controller, file, value string }

// huge bounds huge pages, the sizes in order.
func huge(v Values, file, none string) (list []setting) {
	for _, size := range slices.Sorted(maps.Keys(v.Huge)) {
		list = append(list, setting{"hugetlb", "hugetlb." + size + "." + file, signed(new(v.Huge[size]), none)})
	}
	return list
}

func (t *Tree) setUnified(group string, v Values) error {
	dir := t.unified
	if err := evacuate(dir); err != nil {
		return err
	}
	for part := range strings.SplitSeq(strings.Trim(group, "/"), "/") {
		if err := delegate(dir); err != nil {
			return err
		}
		dir = filepath.Join(dir, part)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make cgroup %s: %w", dir, err)
		}
	}
	cpu, weight := "", ""
	if v.Quota != nil {
		cpu = signed(v.Quota, "max") + " " + strconv.Itoa(Period)
	}
	if v.Shares != nil {
		weight = strconv.FormatUint(Weight(*v.Shares), 10)
	}
	list := []setting{{"cpu", "cpu.weight", weight}, {"cpu", "cpu.max", cpu}, {"memory", "memory.max", signed(v.Memory, "max")},
		{"memory", "memory.min", signed(v.Min, "0")}, {"memory", "memory.low", signed(v.Low, "0")},
		{"memory", "memory.high", signed(v.High, "max")}, {"pids", "pids.max", signed(v.Pids, "max")}}
	for _, s := range append(list, huge(v, "max", "max")...) {
		if _, err := os.Stat(filepath.Join(dir, s.file)); err != nil || s.value == "" {
			continue // the machine does not delegate this controller
		}
		if err := put(dir, s.file, s.value); err != nil {
			return err
		}
	}
	return nil
}

// delegate lets the groups below have the controllers that the group has.
func delegate(dir string) error {
	have, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("read the controllers of cgroup %s: %w", dir, err)
	}
	on, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err != nil {
		return fmt.Errorf("read the controllers below cgroup %s: %w", dir, err)
	}
	for _, c := range strings.Fields(string(have)) {
		if slices.Contains([]string{"cpu", "cpuset", "hugetlb", "io", "memory", "pids"}, c) && !slices.Contains(strings.Fields(string(on)), c) {
			if err := put(dir, "cgroup.subtree_control", "+"+c); err != nil {
				return err
			}
		}
	}
	return nil
}

// evacuate moves the processes of the topmost group into one below it, where that is a container's and not the machine's: as long as it has
// any, it hands no controllers on, and after the first few of them no process could be moved.
func evacuate(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "cgroup.type")); err != nil {
		return nil // the machine's has none
	}
	for range 10 { // those that start meanwhile too
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil || len(text) == 0 {
			return err
		}
		for _, pid := range strings.Fields(string(text)) {
			err := put(filepath.Join(dir, "init"), "cgroup.procs", pid)
			if err != nil && !errors.Is(err, unix.ESRCH) { // it has ended
				return err
			}
		}
	}
	return nil
}

// Weight is version 2's weight of the CPU for version 1's shares: 2 become 1, 1024 the kernel's default of 100, and 262144 become 10000;
// between them a curve goes through these three, as the kubelet has it since 1.35 (opencontainers/cgroups 0.0.6).
func Weight(shares uint64) uint64 {
	const rounding = 1e-9 // a power that is whole but for the computer's error is not rounded up
	l := math.Log2(float64(min(max(shares, 2), 262144)))
	return uint64(math.Ceil(math.Pow(10, (l*l+125*l)/612-7.0/34) - rounding))
}

func put(dir, file, value string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make cgroup %s: %w", dir, err)
	}
	if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0o644); err != nil {
		return fmt.Errorf("set %s to %s: %w", file, value, err)
	}
	return nil
}

func unsigned(p *uint64) string {
	if p == nil {
		return ""
	}
	return strconv.FormatUint(*p, 10)
}

func signed(p *int64, none string) string {
	switch {
	case p == nil:
		return ""
	case *p < 0:
		return none
	}
	return strconv.FormatInt(*p, 10)
}

func onlyWith(p *int64, n int) string {
	if p == nil {
		return ""
	}
	return strconv.Itoa(n)
}

// Remove removes the pod's group, whatever its class, with all groups below it: programs that make groups of their own (systemd,
// another runtime) leave them behind. What still runs there is killed; then the error asks for another try.
func (t *Tree) Remove(uid types.UID) error {
	defer t.observe("destroy")()
	var errs []error
	for _, root := range t.roots() {
		for _, class := range []corev1.PodQOSClass{corev1.PodQOSGuaranteed, corev1.PodQOSBurstable, corev1.PodQOSBestEffort} {
			errs = append(errs, t.end(root, t.Pod(class, uid)))
		}
	}
	return errors.Join(errs...)
}

func (t *Tree) roots() (list []string) {
	if t.Unified() {
		return []string{t.unified}
	}
	for _, dir := range t.of {
		if !slices.Contains(list, dir) {
			list = append(list, dir)
		}
	}
	slices.Sort(list)
	return list
}

// below lists a group and those below it, the deepest last.
func below(top string) (dirs []string, err error) {
	err = filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // it went meanwhile
			return nil
		case err != nil:
			return err
		case e.IsDir():
			dirs = append(dirs, path)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look through cgroup %s: %w", top, err)
	}
	return dirs, nil
}

// removeGroup removes a group and those below it, the deepest first.
func removeGroup(top string) error {
	dirs, err := below(top)
	if err != nil {
		return err
	}
	slices.Reverse(dirs)
	for _, d := range dirs {
		err := unix.Rmdir(d)
		if errors.Is(err, unix.EBUSY) {
			killAll(d)
		}
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("remove cgroup %s: %w", d, err)
		}
	}
	return nil
}

// killAll ends the processes of a group.
func killAll(dir string) {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return // the next try sees whether it is gone
	}
	for _, f := range strings.Fields(string(text)) {
		if pid, err := strconv.Atoi(f); err == nil && pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
}
