package serve

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func podOf(p *cri.PodSandboxStats, began map[string]time.Time) podStats {
	at, use := p.GetAttributes(), p.GetLinux()
	meta := at.GetMetadata()
	s := podStats{PodRef: podRef{Name: meta.GetName(), Namespace: meta.GetNamespace(), UID: meta.GetUid()},
		StartTime: metav1.NewTime(began[at.GetId()]), Containers: []containerStats{},
		CPU: cpuOf(use.GetCpu()), Memory: memoryOf(use.GetMemory()), Network: networkOf(use.GetNetwork())}
	for _, c := range use.GetContainers() {
		s.Containers = append(s.Containers, containerOf(c, began))
	}
	if n := value(use.GetProcess().GetProcessCount()); n != nil {
		s.Processes = &processStats{ProcessCount: n}
	}
	return s
}

func containerOf(c *cri.ContainerStats, began map[string]time.Time) containerStats {
	s := containerStats{Name: c.GetAttributes().GetMetadata().GetName(), StartTime: metav1.NewTime(began[c.GetAttributes().GetId()]),
		CPU: cpuOf(c.GetCpu()), Memory: memoryOf(c.GetMemory())}
	if l := c.GetWritableLayer(); l != nil {
		s.Rootfs = &fsStats{Time: stamp(l.Timestamp), UsedBytes: value(l.UsedBytes), InodesUsed: value(l.InodesUsed)}
	}
	return s
}

func cpuOf(c *cri.CpuUsage) *cpuStats {
	if c == nil {
		return nil
	}
	return &cpuStats{Time: stamp(c.Timestamp), UsageNanoCores: value(c.UsageNanoCores), UsageCoreNanoSeconds: value(c.UsageCoreNanoSeconds)}
}

func memoryOf(m *cri.MemoryUsage) *memoryStats {
	if m == nil {
		return nil
	}
	return &memoryStats{Time: stamp(m.Timestamp), AvailableBytes: value(m.AvailableBytes), UsageBytes: value(m.UsageBytes),
		WorkingSetBytes: value(m.WorkingSetBytes), RSSBytes: value(m.RssBytes), PageFaults: value(m.PageFaults),
		MajorPageFaults: value(m.MajorPageFaults)}
}

func networkOf(n *cri.NetworkUsage) *networkStats {
	if n == nil {
		return nil
	}
	s := &networkStats{Time: stamp(n.Timestamp), interfaceStats: interfaceOf(n.DefaultInterface)}
	for _, i := range n.Interfaces {
		s.Interfaces = append(s.Interfaces, interfaceOf(i))
	}
	if n.DefaultInterface != nil {
		s.Interfaces = append([]interfaceStats{s.interfaceStats}, s.Interfaces...)
	}
	return s
}

func interfaceOf(i *cri.NetworkInterfaceUsage) interfaceStats {
	return interfaceStats{Name: i.GetName(), RxBytes: value(i.GetRxBytes()), RxErrors: value(i.GetRxErrors()),
		TxBytes: value(i.GetTxBytes()), TxErrors: value(i.GetTxErrors())}
}

func value(v *cri.UInt64Value) *uint64 {
	if v == nil {
		return nil
	}
	return &v.Value
}

func stamp(ns int64) metav1.Time { return metav1.NewTime(time.Unix(0, ns)) }
