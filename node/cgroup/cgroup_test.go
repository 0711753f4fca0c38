package cgroup

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
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
				"cpu.weight": "", "cpu.max": "", "memory.max": "", "pids.max": ""} {
				write(dir+file, text)
			}
		}
	}
	return root
}

func TestSet(t *testing.T) {
	half, mib, none := int64(50000), int64(1<<20), int64(-1)
	shares := uint64(512)
	v := Values{Shares: &shares, Quota: &half, Memory: &mib, Pids: &none}
	const pod = "kubepods/burstable/podu/"
	for _, c := range []struct {
		name        string
		hierarchies []string
		want        map[string]string
	}{
		{"version 1", []string{"cpu", "memory", "pids"}, map[string]string{"cpu/" + pod + "cpu.shares": "512",
			"cpu/" + pod + "cpu.cfs_quota_us":  "50000",
			"cpu/" + pod + "cpu.cfs_period_us": "100000", "memory/" + pod + "memory.limit_in_bytes": "1048576", "pids/" + pod + "pids.max": "max"}},
		{"version 1, joint", []string{"cpu,cpuacct"}, map[string]string{"cpu,cpuacct/" + pod + "cpu.shares": "512"}},
		{"version 2", nil, map[string]string{pod + "cpu.weight": "20", pod + "cpu.max": "50000 100000", pod + "memory.max": "1048576",
			pod + "pids.max":                  "max",
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
		if _, err := os.Stat(filepath.Join(root, dir)); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", dir, err == nil, want)
		}
	}
	if err := tree.Remove("u"); err != nil {
		t.Errorf("removed twice: %v", err)
	}
}

func TestWeight(t *testing.T) {
	for shares, want := range map[uint64]uint64{0: 1, 2: 1, 1024: 39, 262144: 10000, 1 << 30: 10000} {
		if got := Weight(shares); got != want {
			t.Errorf("%d shares: weight %d, want %d", shares, got, want)
		}
	}
}
