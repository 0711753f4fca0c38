package cgroup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/internal/eventually"
	"github.com/kloop-dev/kloop/test/vm"
)

const (
	mib   = int64(1 << 20)
	hogAs = "KLOOP_TEST_HOG"
)

// TestUnified has a kernel with version 2 alone hold processes of a pod to what the Tree writes.
func TestUnified(t *testing.T) {
	if !vm.Run(t, vm.Config{}) {
		return
	}
	if err := os.WriteFile("/proc/sys/vm/nr_hugepages", []byte("8"), 0); err != nil {
		t.Fatal(err)
	}
	tree := Open(Root, "kubepods")
	if !tree.Unified() {
		t.Fatal("version 2 was not found")
	}
	t.Run("values", func(t *testing.T) { values(t, tree) })
	t.Run("memory", func(t *testing.T) {
		pod := newPod(t, tree, "memory", Values{Memory: new(48 * mib)})
		if err := pod.hog("memory 96"); killed(err) != syscall.SIGKILL || pod.event("memory.events", "oom_kill") == 0 {
			t.Errorf("not killed for want of memory: %v, %v", err, pod.read("memory.events"))
		}
	})
	t.Run("memory is slowed down above memory.high", func(t *testing.T) {
		pod := newPod(t, tree, "high", Values{Memory: new(128 * mib), High: new(32 * mib)})
		cmd := pod.start("memory 96") // takes long, as it should
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		eventually.True(t, "slowed down", func() bool { return pod.event("memory.events", "high") > 0 })
		killAll(filepath.Join(pod.dir, "container"))
		if err := cmd.Wait(); killed(err) != syscall.SIGKILL || pod.event("memory.events", "oom_kill") > 0 {
			t.Errorf("%v, %v", err, pod.read("memory.events"))
		}
	})
	t.Run("processes", func(t *testing.T) {
		pod := newPod(t, tree, "pids", Values{Pids: new(int64(30))})
		if err := pod.hog("threads 60"); err == nil || pod.event("container/pids.events", "max") == 0 {
			t.Errorf("60 threads where 30 may be: %v, %v", err, pod.read("container/pids.events"))
		}
	})
	t.Run("huge pages", func(t *testing.T) {
		pod := newPod(t, tree, "huge", Values{Huge: map[string]int64{"2MB": 2 * mib}})
		if err := pod.hog("huge 4"); err == nil || pod.event("hugetlb.2MB.events", "max") == 0 {
			t.Errorf("4 MiB where 2 may be: %v, %v", err, pod.read("hugetlb.2MB.events"))
		}
		if err := tree.Set(pod.group, Values{Huge: map[string]int64{"2MB": 4 * mib}}); err != nil {
			t.Fatal(err)
		}
		if err := pod.hog("huge 4"); err != nil {
			t.Errorf("4 MiB where 4 may be: %v", err)
		}
	})
	t.Run("in a container", evacuated)
	t.Run("CPU, resize and removal", func(t *testing.T) { resize(t, tree) })
}

// values writes all there is and reads it back, down to what a runtime's groups below may use.
func values(t *testing.T, tree *Tree) {
	pod := newPod(t, tree, "values", Values{Shares: new(uint64(1024)), Quota: new(int64(20000)), Memory: new(64 * mib), Pids: new(int64(77)),
		Min: new(8 * mib), Low: new(16 * mib), High: new(32 * mib), Huge: map[string]int64{"2MB": 0, "1GB": -1}})
	for file, want := range map[string]string{
		"cpu.weight": strconv.FormatUint(Weight(1024), 10), "cpu.max": "20000 100000", "memory.max": "67108864", "pids.max": "77",
		"memory.min": "8388608", "memory.low": "16777216", "memory.high": "33554432", "hugetlb.2MB.max": "0",
		"cgroup.subtree_control": "cpuset cpu io memory hugetlb pids",
	} {
		if got := pod.read(file); got != want {
			t.Errorf("%s is %q, want %q", file, got, want)
		}
	}
	for _, all := range []string{tree.Pods(), tree.Class(corev1.PodQOSBestEffort)} {
		if err := tree.Set(all, Values{Shares: new(uint64(2)), Memory: new(512 * mib), Min: new(mib)}); err != nil {
			t.Error(err)
		}
	}
	none := int64(-1)
	if err := tree.Set(pod.group, Values{Quota: &none, Memory: &none, Pids: &none, Min: &none, Low: &none, High: &none}); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"cpu.max": "max 100000", "memory.max": "max", "pids.max": "max", "memory.min": "0",
		"memory.low": "0", "memory.high": "max", "cpu.weight": strconv.FormatUint(Weight(1024), 10)} {
		if got := pod.read(file); got != want {
			t.Errorf("without limits, %s is %q, want %q", file, got, want)
		}
	}
}

// evacuated has the groups of pods below one that has a process, as a container's topmost has.
func evacuated(t *testing.T) {
	box := filepath.Join(Root, "container")
	if err := errors.Join(delegate(Root), os.Mkdir(box, 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd := testPod{dir: Root}.start("spin") // in box
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	pid := strconv.Itoa(cmd.Process.Pid)
	tree := Open(box, Pods)
	if err := tree.Set(tree.Pod(corev1.PodQOSBurstable, "u"), Values{Memory: new(64 * mib)}); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"kubepods/burstable/podu/memory.max": "67108864", "init/cgroup.procs": pid} {
		if got := (testPod{dir: box}).read(file); got != want {
			t.Errorf("%s is %q, want %q", file, got, want)
		}
	}
}

// resize changes what a process has while it runs, and removes the group under it.
func resize(t *testing.T, tree *Tree) {
	pod := newPod(t, tree, "resize", Values{Quota: new(int64(10000)), Memory: new(64 * mib)})
	cmd := pod.start("spin")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	eventually.True(t, "throttled", func() bool { return pod.event("cpu.stat", "nr_throttled") > 0 })
	for _, v := range []Values{{Quota: new(int64(50000)), Memory: new(48 * mib)}, {Quota: new(int64(-1)), Memory: new(96 * mib)}} {
		if err := tree.Set(pod.group, v); err != nil {
			t.Fatal(err)
		}
		if got := pod.read("memory.max"); got != strconv.FormatInt(*v.Memory, 10) {
			t.Errorf("memory.max is %s", got)
		}
	}
	select {
	case err := <-done:
		t.Fatalf("the process ended with the resize: %v", err)
	default:
	}
	eventually.True(t, "removed with its processes", func() bool { return tree.Remove("resize") == nil })
	if err := <-done; killed(err) != syscall.SIGKILL {
		t.Errorf("the process ended with %v", err)
	}
	if _, err := os.Stat(pod.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the pod's group is there: %v", err)
	}
}

// testPod is a pod's group with one container's in it.
type testPod struct{ group, dir string }

func newPod(t *testing.T, tree *Tree, uid types.UID, v Values) testPod {
	t.Helper()
	group := tree.Pod(corev1.PodQOSBurstable, uid)
	if err := tree.Set(group, v); err != nil {
		t.Fatal(err)
	}
	p := testPod{group, filepath.Join(Root, group)}
	if err := errors.Join(delegate(p.dir), os.MkdirAll(filepath.Join(p.dir, "container"), 0o755)); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p testPod) read(file string) string {
	data, err := os.ReadFile(filepath.Join(p.dir, file))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(data))
}

// event reads a counter from a file of lines "name count".
func (p testPod) event(file, name string) (n int) {
	for line := range strings.Lines(p.read(file)) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			n, _ = strconv.Atoi(strings.TrimSpace(rest)) // 0: it is no number
		}
	}
	return n
}

// start makes a process of the pod's container: TestHog of this program.
func (p testPod) start(what string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestHog$")
	cmd.Env = append(os.Environ(), hogAs+"="+what)
	fd, err := unix.Open(filepath.Join(p.dir, "container"), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		cmd.Err = err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: fd}
	return cmd
}

func (p testPod) hog(what string) error {
	out, err := p.start(what).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %.300s", err, out)
	}
	return nil
}

// killed returns the signal that ended a process.
func killed(err error) syscall.Signal {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.Sys().(syscall.WaitStatus).Signal()
	}
	return 0
}

// TestHog is the program in the container: it takes what it is asked to.
func TestHog(t *testing.T) {
	var what string
	var n int
	if _, err := fmt.Sscan(os.Getenv(hogAs), &what, &n); what == "" {
		return // an ordinary run
	} else if err != nil && what != "spin" {
		t.Fatal(err)
	}
	switch what {
	case "memory", "huge":
		flags := unix.MAP_ANON | unix.MAP_PRIVATE
		if what == "huge" {
			flags |= unix.MAP_HUGETLB
		}
		mem, err := unix.Mmap(-1, 0, n<<20, unix.PROT_READ|unix.PROT_WRITE, flags)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(mem); i += 4096 {
			mem[i] = 1
		}
	case "threads":
		for range n {
			up := make(chan bool)
			go func() {
				runtime.LockOSThread()
				up <- true
				select {} // until the process ends
			}()
			<-up
		}
	case "spin":
		for spun := 0; ; spun++ { // until the process is killed
		}
	}
}
