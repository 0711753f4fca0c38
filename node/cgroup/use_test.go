package cgroup

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func files(t *testing.T, list map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range list {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestUse reads what both versions of cgroups count, in the same words.
func TestUse(t *testing.T) {
	const pod = "/kubepods/burstable/podu"
	v2 := files(t, map[string]string{"cgroup.controllers": "cpu memory io",
		pod[1:] + "/cgroup.procs": "", pod[1:] + "/c1/cgroup.procs": "77\n78\n",
		pod[1:] + "/c1/cpu.stat":      "usage_usec 9\nnr_periods 4\nnr_throttled 2\nthrottled_usec 3\n",
		pod[1:] + "/c1/memory.stat":   "anon 1\nfile 10\nfile_mapped 5\n",
		pod[1:] + "/c1/memory.events": "low 0\nmax 6\noom_kill 8\n",
		pod[1:] + "/c1/memory.peak":   "11\n", pod[1:] + "/c1/pids.current": "12\n",
		pod[1:] + "/c1/memory.swap.current": "7\n",
		pod[1:] + "/c1/io.stat":             "259:9999 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0\n"})
	v1 := files(t, map[string]string{"memory/cgroup.procs": "", "cpu,cpuacct/cgroup.procs": "", "blkio/cgroup.procs": "",
		"memory" + pod + "/cgroup.procs": "", "memory" + pod + "/c1/cgroup.procs": "77\n",
		"cpu,cpuacct" + pod + "/c1/cpu.stat":  "nr_periods 4\nnr_throttled 2\nthrottled_time 3000\n",
		"memory" + pod + "/c1/memory.stat":    "cache 1\ntotal_cache 10\ntotal_mapped_file 5\ntotal_swap 7\n",
		"memory" + pod + "/c1/memory.failcnt": "6\n", "memory" + pod + "/c1/memory.oom_control": "under_oom 0\noom_kill 8\n",
		"memory" + pod + "/c1/memory.max_usage_in_bytes": "11\n", "pids" + pod + "/c1/pids.current": "12\n", "pids/cgroup.procs": "",
		"blkio" + pod + "/c1/blkio.throttle.io_serviced_recursive": "259:9999 Read 3\n259:9999 Write 4\n" +
			"259:9999 Sync 7\n259:9999 Total 7\nTotal 7\n",
		"blkio" + pod + "/c1/blkio.throttle.io_service_bytes_recursive": "259:9999 Read 1\n259:9999 Write 2\n"})
	want := Use{Pid: 77, Disks: map[string]Disk{"259:9999": {Reads: 3, Writes: 4, ReadBytes: 1, WriteBytes: 2}},
		Counts: map[string]uint64{"nr_periods": 4, "nr_throttled": 2, "throttled_ns": 3000, "cache": 10, "mapped": 5, "swap": 7, "failures": 6,
			"killed": 8, "peak": 11, "threads": 12}}
	for name, root := range map[string]string{"version 2": v2, "version 1": v1} {
		t.Run(name, func(t *testing.T) {
			own, below := Open(root, Pods).Use(corev1.PodQOSBurstable, "u")
			if got := below["c1"]; !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %+v\nwant %+v", name, got, want)
			}
			if own.Pid != 77 {
				t.Errorf("%s: the pod has no process: %+v", name, own)
			}
			if _, below := Open(root, Pods).Use(corev1.PodQOSGuaranteed, "u"); len(below) != 0 {
				t.Errorf("%s: a pod that is not there has containers", name)
			}
		})
	}
}
