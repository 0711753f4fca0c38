package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/test/need"
)

// machine makes a directory that looks like a machine's cgroups: of version 2 when no controllers are named.
func machine(t *testing.T, hierarchies ...string) string {
	t.Helper()
	root := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range hierarchies {
		write(h+"/cgroup.procs", "")
	}
	if len(hierarchies) == 0 {
		for _, dir := range []string{"", "kubepods/", "kubepods/burstable/", "kubepods/burstable/podu/"} {
			for file, text := range map[string]string{"cgroup.controllers": "cpu memory pids rdma\n", "cgroup.subtree_control": "memory\n",
				"cpu.weight": "", "cpu.max": "", "memory.max": "", "memory.min": "", "memory.high": "", "pids.max": "", "hugetlb.2MB.max": ""} {
				write(dir+file, text)
			}
		}
	}
	return root
}

func TestSet(t *testing.T) {
	half, mib, none := int64(50000), int64(1<<20), int64(-1)
	shares := uint64(512)
	v := Values{Shares: &shares, Quota: &half, Memory: &mib, Pids: &none, Min: &mib, High: &none, Huge: map[string]int64{"2MB": 4096}}
	const pod = "kubepods/burstable/podu/"
	for _, c := range []struct {
		name        string
		hierarchies []string
		want        map[string]string
	}{
		{"version 1", []string{"cpu", "memory", "pids", "hugetlb"}, map[string]string{"cpu/" + pod + "cpu.shares": "512",
			"cpu/" + pod + "cpu.cfs_quota_us":  "50000",
			"cpu/" + pod + "cpu.cfs_period_us": "100000", "memory/" + pod + "memory.limit_in_bytes": "1048576", "pids/" + pod + "pids.max": "max",
			"hugetlb/" + pod + "hugetlb.2MB.limit_in_bytes": "4096"}},
		{"version 1, joint", []string{"cpu,cpuacct"}, map[string]string{"cpu,cpuacct/" + pod + "cpu.shares": "512"}},
		{"version 2", nil, map[string]string{pod + "cpu.weight": "59", pod + "cpu.max": "50000 100000", pod + "memory.max": "1048576",
			pod + "pids.max": "max", pod + "memory.min": "1048576", pod + "memory.high": "max", pod + "hugetlb.2MB.max": "4096",
			"kubepods/cgroup.subtree_control": "+pids"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := machine(t, c.hierarchies...)
			tree := Open(root, "kubepods")
			if err := tree.Set(tree.Pod(corev1.PodQOSBurstable, "u"), v); err != nil {
				t.Fatal(err)
			}
			for file, want := range c.want {
				if got, err := os.ReadFile(filepath.Join(root, file)); err != nil || string(got) != want {
					t.Errorf("%s: %q, %v, want %q", file, got, err, want)
				}
			}
		})
	}
}

// A container that makes groups of its own leaves them behind: the pod's group goes with all of them.
func TestRemoveDepthFirst(t *testing.T) {
	root := machine(t, "cpu", "memory")
	for _, dir := range []string{"cpu/kubepods/besteffort/podu/c/init.scope", "cpu/kubepods/besteffort/podu/c/system.slice/x",
		"memory/kubepods/podu", "cpu/kubepods/podother"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	tree := Open(root, "kubepods")
	if err := tree.Remove("u"); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{"cpu/kubepods/besteffort/podu": false, "memory/kubepods/podu": false,
		"cpu/kubepods/podother": true} {
		t.Run(dir, func(t *testing.T) {
			if _, err := os.Stat(filepath.Join(root, dir)); (err == nil) != want {
				t.Errorf("%s is there: %v, want %v", dir, err == nil, want)
			}
		})
	}
	if err := tree.Remove("u"); err != nil {
		t.Errorf("removed twice: %v", err)
	}
}

func TestWeight(t *testing.T) {
	for shares, want := range map[uint64]uint64{0: 1, 2: 1, 102: 17, 512: 59, 1024: 100, 2048: 174, 262144: 10000, 1 << 30: 10000} {
		if got := Weight(shares); got != want {
			t.Errorf("%d shares: weight %d, want %d", shares, got, want)
		}
	}
}

// The machine's own cgroups take what a Tree writes.
func TestMachine(t *testing.T) {
	need.BeRoot(t)
	name := "kloop-test-" + strconv.Itoa(os.Getpid())
	tree := Open(Root, name)
	if !tree.Unified() && len(tree.of) == 0 {
		t.Skip("this machine has no cgroups")
	}
	pod := tree.Pod(corev1.PodQOSBurstable, "u")
	mib, some, quota := int64(64<<20), int64(77), int64(50000)
	t.Cleanup(func() {
		for _, root := range tree.roots() {
			if err := removeGroup(filepath.Join(root, name)); err != nil {
				t.Error(err)
			}
		}
	})
	for range 2 { // what is there already is set anew
		if err := tree.Set(tree.Pods(), Values{Memory: &mib}); err != nil {
			t.Fatal(err)
		}
		v := Values{Shares: new(uint64(512)), Quota: &quota, Memory: &mib, Pids: &some, Huge: map[string]int64{"2MB": 0}}
		if err := tree.Set(pod, v); err != nil {
			t.Fatal(err)
		}
	}
	for controller, files := range map[string]map[string]string{"memory": {"memory.limit_in_bytes": "67108864", "memory.max": "67108864"},
		"pids": {"pids.max": "77"}, "cpu": {"cpu.shares": "512", "cpu.cfs_quota_us": "50000", "cpu.max": "50000 100000"}} {
		t.Run(controller, func(t *testing.T) {
			dir := tree.of[controller]
			if tree.Unified() {
				dir = tree.unified
			}
			for file, want := range files {
				got, err := os.ReadFile(filepath.Join(dir, pod, file))
				if err == nil && strings.TrimSpace(string(got)) != want {
					t.Errorf("%s is %s, want %s", file, got, want)
				}
			}
			if entries, err := os.ReadDir(filepath.Join(dir, pod)); dir != "" && (err != nil || len(entries) == 0) {
				t.Errorf("%s: %v, %v", controller, entries, err)
			}
		})
	}
	if err := tree.Remove("u"); err != nil {
		t.Error(err)
	}
}
