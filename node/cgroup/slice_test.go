package cgroup

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/node/systemd"
)

// manager is a systemd that keeps what it was told of its slices.
type manager struct {
	of    map[string]map[string]any
	fails error
}

func (m *manager) Set(name string, list []systemd.Property) error {
	props := map[string]any{}
	for _, p := range list {
		props[p.Name] = p.Value
	}
	m.of[name] = props
	return m.fails
}

func (m *manager) Stop(name string) error {
	delete(m.of, name)
	return m.fails
}

// Where systemd makes the groups they have its names, it is told the limits, and ends them; what it does not know is written all the same.
func TestSlices(t *testing.T) {
	v := Values{Shares: new(uint64(512)), Quota: new(int64(12345)), Memory: new(int64(1 << 20)), Pids: new(int64(-1)), Min: new(int64(-1)),
		High: new(int64(-1)), Huge: map[string]int64{"2MB": 4096}}
	const all = uint64(1<<64 - 1)
	for _, c := range []struct {
		name        string
		hierarchies []string
		dir         string
		told        map[string]any
	}{
		{"version 1", []string{"cpu", "memory", "pids", "hugetlb"}, "memory", map[string]any{"CPUShares": uint64(512),
			"CPUQuotaPerSecUSec": uint64(130000), "MemoryLimit": uint64(1 << 20), "TasksMax": all}},
		{"version 2", nil, "", map[string]any{"CPUWeight": uint64(59), "CPUQuotaPerSecUSec": uint64(130000), "MemoryMax": uint64(1 << 20),
			"TasksMax": all, "MemoryMin": uint64(0), "MemoryHigh": all}},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := machine(t, c.hierarchies...)
			tree, m := Open(root, "a-b/kubepods"), &manager{of: map[string]map[string]any{}}
			tree.By(m)
			const name = "a_b-kubepods-burstable-pod1_2.slice"
			group := tree.Pod(corev1.PodQOSBurstable, "1-2")
			if want := "/a_b.slice/a_b-kubepods.slice/a_b-kubepods-burstable.slice/" + name; group != want || tree.Parent(group) != name {
				t.Errorf("group %s, of a runtime %s, want %s", group, tree.Parent(group), want)
			}
			if got := tree.Pod(corev1.PodQOSGuaranteed, "u"); filepath.Base(got) != "a_b-kubepods-podu.slice" {
				t.Errorf("a guaranteed pod's is %s", got)
			}
			at := filepath.Join(root, c.dir, group)
			for dir := at; len(c.hierarchies) == 0 && len(dir) > len(root); dir = filepath.Dir(dir) { // as systemd and the kernel would
				files := map[string]string{"cgroup.controllers": "cpu", "cgroup.subtree_control": "cpu", "cpu.max": ""}
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				for file, text := range files {
					if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := tree.Set(group, v); err != nil {
				t.Fatal(err)
			}
			if !maps.Equal(m.of[name], c.told) {
				t.Errorf("systemd is told %v, want %v", m.of[name], c.told)
			}
			file, exact := filepath.Join(at, "cpu.max"), "12345 100000"
			if c.dir != "" {
				file, exact = filepath.Join(root, "cpu", group, "cpu.cfs_quota_us"), "12345"
			}
			if got, err := os.ReadFile(file); err != nil || string(got) != exact {
				t.Errorf("%s: %q, %v, want %q", file, got, err, exact)
			}
			m.fails = errors.New("no bus")
			if err := tree.Set(group, v); !errors.Is(err, m.fails) {
				t.Errorf("without systemd: %v", err)
			}
			if err := tree.Remove("1-2"); !errors.Is(err, m.fails) || len(m.of) != 0 {
				t.Errorf("removed without systemd: %v, %v is left", err, m.of)
			}
		})
	}
}

// The groups of containers are told by their ids, whoever made them.
func TestScopes(t *testing.T) {
	for name, want := range map[string]string{"abc": "abc", "cri-containerd-abc.scope": "abc", "crio-abc.scope": "abc", "abc.scope": "abc"} {
		if got := container(name); got != want {
			t.Errorf("%s is of %s, want %s", name, got, want)
		}
	}
}
