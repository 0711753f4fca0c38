package serve

import (
	"bytes"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// families are metrics by their names, in the order in which they were begun.
type families struct {
	order []*family
	of    map[string]*family
}

// family begins a metric, or finds it begun. help stands in its header.
func (f *families) family(name, typ, help string) *family {
	if f.of == nil {
		f.of = map[string]*family{}
	}
	m := f.of[name]
	if m == nil {
		m = &family{name: name}
		fmt.Fprintf(m, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, typ)
		f.of[name], f.order = m, append(f.order, m)
	}
	return m
}

// add adds a sample, unless there is nothing to tell.
func (f *families) add(name, typ, help, labels string, v *uint64, scale float64, at metav1.Time) {
	if v != nil {
		f.family(name, typ, help).sample(labels, float64(*v)*scale, at)
	}
}

// cadvisorMetrics answers with what containers use, under cAdvisor's names: dashboards for Kubernetes ask for those.
//
// Unlike Kubernetes, the figures are the runtime's, by the CRI, and only of pods: cgroups of the system have none.
func (a *api) cadvisorMetrics(w http.ResponseWriter, r *http.Request) error {
	s, err := a.gather(r.Context())
	if err != nil {
		return err
	}
	var f families
	f.family("machine_cpu_cores", "gauge", "Number of logical CPU cores.").sample("", float64(runtime.NumCPU()), metav1.Time{})
	if m := s.Node.Memory; m != nil {
		total := float64(*m.AvailableBytes + *m.WorkingSetBytes)
		f.family("machine_memory_bytes", "gauge", "Amount of memory installed on the machine.").sample("", total, metav1.Time{})
	}
	pods := map[string]*corev1.Pod{}
	for _, p := range a.cfg.Pods() {
		pods[string(p.UID)] = p
	}
	for _, p := range s.Pods {
		spec, groups := pods[p.PodRef.UID], kernelUse{}
		if spec != nil && a.cfg.Groups != nil {
			groups.pod, groups.containers = a.cfg.Groups(spec)
		}
		f.pod(p, spec, groups, time.Now())
	}
	var all bytes.Buffer
	for _, m := range f.order {
		all.Write(m.Bytes())
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(all.Bytes()) // the caller may have gone
	return nil
}

// pod adds what a pod and its containers use. spec is the pod in the API; nil: it is gone there.
func (f *families) pod(p podStats, spec *corev1.Pod, groups kernelUse, now time.Time) {
	const group = "/kubepods/pod" // as cgroups are named, without the class of service, which is not told here
	id := group + p.PodRef.UID
	labels := func(id, container, image, name string, more ...string) string {
		text := fmt.Sprintf("container=%q,id=%q,image=%q,name=%q,namespace=%q,pod=%q", container, id, image, name,
			p.PodRef.Namespace, p.PodRef.Name)
		return "{" + strings.Join(append([]string{text}, more...), ",") + "}"
	}
	f.use(func(more ...string) string { return labels(id, "", "", "", more...) }, p.CPU, p.Memory, nil)
	f.counted(func(more ...string) string { return labels(id, "", "", "", more...) }, groups.pod)
	known := spec != nil && f.traffic(func(more ...string) string { return labels(id, "", "", "", more...) }, spec, groups.pod.Pid)
	if p.Network != nil && !known {
		for _, i := range p.Network.Interfaces {
			of := labels(id, "", "", "", fmt.Sprintf("interface=%q", i.Name))
			for _, m := range []struct {
				what string
				v    *uint64
			}{{"receive_bytes", i.RxBytes}, {"receive_errors", i.RxErrors}, {"transmit_bytes", i.TxBytes}, {"transmit_errors", i.TxErrors}} {
				f.add("container_network_"+m.what+"_total", "counter", "Cumulative count of the network: "+m.what, of, m.v, 1, p.Network.Time)
			}
		}
	}
	if p.Processes != nil {
		f.add("container_processes", "gauge", "Number of processes running inside the container.", labels(id, "", "", ""),
			p.Processes.ProcessCount, 1, metav1.Time{})
	}
	for _, c := range p.Containers {
		image, name := "", ""
		limits := corev1.ResourceList{}
		if spec != nil {
			image, name = imageOf(spec, c.Name)
			limits = limitsOf(spec, c.Name)
		}
		of := func(more ...string) string { return labels(id+"/"+name, c.Name, image, name, more...) }
		f.use(of, c.CPU, c.Memory, c.Rootfs)
		f.counted(of, groups.containers[name])
		if !c.StartTime.IsZero() {
			f.family("container_start_time_seconds", "gauge", "Start time of the container since unix epoch in seconds.").sample(of(),
				float64(c.StartTime.Unix()), metav1.Time{})
		}
		f.family("container_last_seen", "gauge", "Last time a container was seen by the exporter").sample(of(), float64(now.Unix()),
			metav1.Time{})
		f.family("container_spec_memory_limit_bytes", "gauge", "Memory limit for the container.").sample(of(),
			float64(limits.Memory().Value()), metav1.Time{})
		if cpu := limits.Cpu().MilliValue(); cpu > 0 {
			f.family("container_spec_cpu_quota", "gauge", "CPU quota of the container.").sample(of(), float64(cpu)*100, metav1.Time{})
			f.family("container_spec_cpu_period", "gauge", "CPU period of the container.").sample(of(), 100000, metav1.Time{})
		}
	}
}

// use adds CPU, memory and disk of a pod or container.
func (f *families) use(labels func(more ...string) string, cpu *cpuStats, memory *memoryStats, disk *fsStats) {
	if cpu != nil {
		f.add("container_cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed in seconds.", labels(`cpu="total"`),
			cpu.UsageCoreNanoSeconds, 1e-9, cpu.Time)
	}
	if memory != nil {
		for _, m := range []struct {
			name, help string
			v          *uint64
		}{{"container_memory_working_set_bytes", "Current working set in bytes.", memory.WorkingSetBytes},
			{"container_memory_usage_bytes", "Current memory usage in bytes, including all memory regardless of when it was accessed",
				memory.UsageBytes},
			{"container_memory_rss", "Size of RSS in bytes.", memory.RSSBytes}} {
			f.add(m.name, "gauge", m.help, labels(), m.v, 1, memory.Time)
		}
		for kind, v := range map[string]*uint64{"pgfault": memory.PageFaults, "pgmajfault": memory.MajorPageFaults} {
			f.add("container_memory_failures_total", "counter", "Cumulative count of memory allocation failures.",
				labels(`failure_type="`+kind+`"`, `scope="container"`), v, 1, memory.Time)
		}
	}
	if disk != nil {
		f.add("container_fs_usage_bytes", "gauge", "Number of bytes that are consumed by the container on this filesystem.", labels(),
			disk.UsedBytes, 1, disk.Time)
	}
}

// imageOf tells the image of a container and its id, from the pod's status.
func imageOf(p *corev1.Pod, container string) (image, id string) {
	for _, list := range [][]corev1.ContainerStatus{p.Status.ContainerStatuses, p.Status.InitContainerStatuses,
		p.Status.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].Name == container {
				_, id, _ = strings.Cut(list[i].ContainerID, "://")
				return list[i].Image, id
			}
		}
	}
	return "", ""
}

func limitsOf(p *corev1.Pod, container string) corev1.ResourceList {
	for _, list := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == container {
				return list[i].Resources.Limits
			}
		}
	}
	return nil
}
