package serve

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/node/cgroup"
)

// counted adds what the kernel counted for a group, where runtimes do not tell of it.
func (f *families) counted(labels func(more ...string) string, u cgroup.Use) {
	for _, m := range []struct {
		from, name, typ, help string
		scale                 float64
	}{
		{"nr_periods", "container_cpu_cfs_periods_total", "counter", "Number of elapsed enforcement period intervals.", 1},
		{"nr_throttled", "container_cpu_cfs_throttled_periods_total", "counter", "Number of throttled period intervals.", 1},
		{"throttled_ns", "container_cpu_cfs_throttled_seconds_total", "counter", "Total time duration the container has been throttled.", 1e-9},
		{"cache", "container_memory_cache", "gauge", "Number of bytes of page cache memory.", 1},
		{"mapped", "container_memory_mapped_file", "gauge", "Size of memory mapped files in bytes.", 1},
		{"swap", "container_memory_swap", "gauge", "Container swap usage in bytes.", 1},
		{"failures", "container_memory_failcnt", "counter", "Number of memory usage hits limits", 1},
		{"killed", "container_oom_events_total", "counter", "Count of out of memory events observed for the container", 1},
		{"peak", "container_memory_max_usage_bytes", "gauge", "Maximum memory usage recorded in bytes", 1},
		{"threads", "container_threads", "gauge", "Number of threads running inside the container", 1},
	} {
		if n, ok := u.Counts[m.from]; ok {
			f.add(m.name, m.typ, m.help, labels(), &n, m.scale, metav1.Time{})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(u.Disks)) {
		d := u.Disks[name]
		of := labels(fmt.Sprintf("device=%q", name))
		f.add("container_fs_reads_total", "counter", "Cumulative count of reads completed", of, &d.Reads, 1, metav1.Time{})
		f.add("container_fs_writes_total", "counter", "Cumulative count of writes completed", of, &d.Writes, 1, metav1.Time{})
		f.add("container_fs_reads_bytes_total", "counter", "Cumulative count of bytes read", of, &d.ReadBytes, 1, metav1.Time{})
		f.add("container_fs_writes_bytes_total", "counter", "Cumulative count of bytes written", of, &d.WriteBytes, 1, metav1.Time{})
	}
}

// traffic adds what went through a pod's network, as one of its processes sees it. false: nothing is known.
func (f *families) traffic(labels func(more ...string) string, spec *corev1.Pod, pid int) bool {
	if pid == 0 || spec.Spec.HostNetwork {
		return false
	}
	list, err := netDevices(fmt.Sprintf("/proc/%d/net/dev", pid))
	if err != nil {
		return false // it has ended
	}
	for _, d := range list {
		of := labels(fmt.Sprintf("interface=%q", d.name))
		for i, what := range []string{"bytes", "packets", "errors", "packets_dropped"} {
			help := "Cumulative count of " + strings.ReplaceAll(what, "_", " ")
			f.add("container_network_receive_"+what+"_total", "counter", help+" received", of, &d.rx[i], 1, metav1.Time{})
			f.add("container_network_transmit_"+what+"_total", "counter", help+" transmitted", of, &d.tx[i], 1, metav1.Time{})
		}
	}
	return len(list) > 0
}
