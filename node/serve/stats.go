package serve

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/node/csi"
)

// The types below are the kubelet's summary API, as far as it is filled.

type summary struct {
	Node nodeStats  `json:"node"`
	Pods []podStats `json:"pods"`
}

type nodeStats struct {
	NodeName  string       `json:"nodeName"`
	StartTime metav1.Time  `json:"startTime"`
	CPU       *cpuStats    `json:"cpu,omitempty"`
	Memory    *memoryStats `json:"memory,omitempty"`
	Fs        *fsStats     `json:"fs,omitempty"`

	Network *networkStats    `json:"network,omitempty"`
	Runtime *runtimeStats    `json:"runtime,omitempty"`
	Limits  *limitStats      `json:"rlimit,omitempty"`
	Swap    *swapStats       `json:"swap,omitempty"`
	System  []containerStats `json:"systemContainers,omitempty"`
}

type podStats struct {
	PodRef     podRef           `json:"podRef"`
	StartTime  metav1.Time      `json:"startTime"`
	Containers []containerStats `json:"containers"`
	CPU        *cpuStats        `json:"cpu,omitempty"`
	Memory     *memoryStats     `json:"memory,omitempty"`
	Network    *networkStats    `json:"network,omitempty"`
	Processes  *processStats    `json:"process_stats,omitempty"`
	Volumes    []volumeStats    `json:"volume,omitempty"`
	Ephemeral  *fsStats         `json:"ephemeral-storage,omitempty"`
	Swap       *swapStats       `json:"swap,omitempty"`
}

type volumeStats struct {
	Name string `json:"name"`
	fsStats
	Claim *claimRef `json:"pvcRef,omitempty"`
}

type claimRef struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

type podRef struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	UID       string `json:"uid"`
}

type containerStats struct {
	Name      string       `json:"name"`
	StartTime metav1.Time  `json:"startTime"`
	CPU       *cpuStats    `json:"cpu,omitempty"`
	Memory    *memoryStats `json:"memory,omitempty"`
	Rootfs    *fsStats     `json:"rootfs,omitempty"`
	Logs      *fsStats     `json:"logs,omitempty"`
	Swap      *swapStats   `json:"swap,omitempty"`
}

type cpuStats struct {
	Time                 metav1.Time `json:"time"`
	UsageNanoCores       *uint64     `json:"usageNanoCores,omitempty"`
	UsageCoreNanoSeconds *uint64     `json:"usageCoreNanoSeconds,omitempty"`
}

type memoryStats struct {
	Time            metav1.Time `json:"time"`
	AvailableBytes  *uint64     `json:"availableBytes,omitempty"`
	UsageBytes      *uint64     `json:"usageBytes,omitempty"`
	WorkingSetBytes *uint64     `json:"workingSetBytes,omitempty"`
	RSSBytes        *uint64     `json:"rssBytes,omitempty"`
	PageFaults      *uint64     `json:"pageFaults,omitempty"`
	MajorPageFaults *uint64     `json:"majorPageFaults,omitempty"`
}

type fsStats struct {
	Time           metav1.Time `json:"time"`
	AvailableBytes *uint64     `json:"availableBytes,omitempty"`
	CapacityBytes  *uint64     `json:"capacityBytes,omitempty"`
	UsedBytes      *uint64     `json:"usedBytes,omitempty"`
	InodesFree     *uint64     `json:"inodesFree,omitempty"`
	Inodes         *uint64     `json:"inodes,omitempty"`
	InodesUsed     *uint64     `json:"inodesUsed,omitempty"`
}

type networkStats struct {
	Time metav1.Time `json:"time"`
	interfaceStats
	Interfaces []interfaceStats `json:"interfaces,omitempty"`
}

type interfaceStats struct {
	Name     string  `json:"name"`
	RxBytes  *uint64 `json:"rxBytes,omitempty"`
	RxErrors *uint64 `json:"rxErrors,omitempty"`
	TxBytes  *uint64 `json:"txBytes,omitempty"`
	TxErrors *uint64 `json:"txErrors,omitempty"`
}

type processStats struct {
	ProcessCount *uint64 `json:"process_count,omitempty"`
}

func (a *api) summary(w http.ResponseWriter, r *http.Request) error {
	s, err := a.gather(r.Context())
	if err != nil {
		return err
	}
	if only, _ := strconv.ParseBool(r.URL.Query().Get("only_cpu_and_memory")); only {
		s.slim()
		return writeJSON(w, s)
	}
	if a.cfg.Volumes != nil {
		pods := map[string]*corev1.Pod{}
		for _, p := range a.cfg.Pods() {
			pods[string(p.UID)] = p
		}
		for i := range s.Pods {
			if p := pods[s.Pods[i].PodRef.UID]; p != nil {
				for _, u := range a.cfg.Volumes(r.Context(), p) {
					s.Pods[i].Volumes = append(s.Pods[i].Volumes, volumeOf(u))
				}
			}
		}
	}
	a.enrich(r.Context(), &s)
	return writeJSON(w, s)
}

// slim leaves CPU and memory, which is all that some readers ask for.
func (s *summary) slim() {
	s.Node.Fs = nil
	for i := range s.Pods {
		p := &s.Pods[i]
		p.Network, p.Processes, p.Volumes = nil, nil, nil
		for j := range p.Containers {
			p.Containers[j].Rootfs = nil
		}
	}
}

func volumeOf(u csi.Usage) volumeStats {
	v := volumeStats{Name: u.Volume, fsStats: fsStats{Time: metav1.NewTime(u.At), AvailableBytes: &u.Free, CapacityBytes: &u.Size,
		UsedBytes: &u.Used, InodesFree: &u.InodesFree, Inodes: &u.Inodes, InodesUsed: &u.InodesUsed}}
	if u.Claim != "" {
		v.Claim = &claimRef{u.Claim, u.Namespace}
	}
	return v
}

// gather asks the runtime and the kernel what is used.
func (a *api) gather(ctx context.Context) (s summary, err error) {
	if s.Node, err = readNode(); err != nil {
		return s, err
	}
	s.Node.CPU.UsageNanoCores = a.cpus.look(s.Node.CPU.Time.Time, *s.Node.CPU.UsageCoreNanoSeconds)
	s.Node.NodeName = a.cfg.Node
	if s.Node.NodeName == "" {
		s.Node.NodeName, _ = os.Hostname() // a name is only a label here
	}
	began, err := a.startTimes(ctx)
	if err != nil {
		return s, err
	}
	s.Pods = []podStats{}
	res, err := a.cfg.Runtime.Containers.ListPodSandboxStats(ctx, &cri.ListPodSandboxStatsRequest{})
	if err != nil { // older runtimes can't, or fail for all when one sandbox has no cgroup of its own
		a.log.Debug("ask the runtime what pods use; counting their containers instead", "err", err)
		err = a.gatherContainers(ctx, &s, began)
		return s, err
	}
	for _, p := range res.Stats {
		s.Pods = append(s.Pods, podOf(p, began))
	}
	return s, nil
}

// gatherContainers makes do with a runtime that knows only containers.
func (a *api) gatherContainers(ctx context.Context, s *summary, began map[string]time.Time) error {
	res, err := a.cfg.Runtime.Containers.ListContainerStats(ctx, &cri.ListContainerStatsRequest{})
	if err != nil {
		return fmt.Errorf("ask the runtime what containers use: %w", err)
	}
	at := map[string]int{}
	for _, c := range res.Stats {
		l := c.GetAttributes().GetLabels()
		ref := podRef{Name: l["io.kubernetes.pod.name"], Namespace: l["io.kubernetes.pod.namespace"], UID: l["io.kubernetes.pod.uid"]}
		i, known := at[ref.UID]
		if !known {
			i = len(s.Pods)
			at[ref.UID] = i
			s.Pods = append(s.Pods, podStats{PodRef: ref, CPU: &cpuStats{}, Memory: &memoryStats{}})
		}
		p, k := &s.Pods[i], containerOf(c, began)
		p.Containers = append(p.Containers, k)
		p.add(k)
	}
	return nil
}

// add counts a container's use into the pod's.
func (p *podStats) add(k containerStats) {
	if k.CPU != nil {
		p.CPU.Time = k.CPU.Time
		p.CPU.UsageCoreNanoSeconds = sum(p.CPU.UsageCoreNanoSeconds, k.CPU.UsageCoreNanoSeconds)
		p.CPU.UsageNanoCores = sum(p.CPU.UsageNanoCores, k.CPU.UsageNanoCores)
	}
	if k.Memory != nil {
		p.Memory.Time = k.Memory.Time
		p.Memory.WorkingSetBytes = sum(p.Memory.WorkingSetBytes, k.Memory.WorkingSetBytes)
		p.Memory.UsageBytes = sum(p.Memory.UsageBytes, k.Memory.UsageBytes)
		p.Memory.RSSBytes = sum(p.Memory.RSSBytes, k.Memory.RSSBytes)
	}
	if p.StartTime.IsZero() || k.StartTime.Before(&p.StartTime) {
		p.StartTime = k.StartTime
	}
}

func sum(x, y *uint64) *uint64 {
	switch {
	case x == nil:
		return y
	case y == nil:
		return x
	}
	n := *x + *y
	return &n
}

// startTimes are the times at which containers and sandboxes were made, by their ids.
func (a *api) startTimes(ctx context.Context) (map[string]time.Time, error) {
	list, err := a.cfg.Runtime.Containers.ListContainers(ctx, &cri.ListContainersRequest{})
	if err != nil {
		return nil, fmt.Errorf("list the containers: %w", err)
	}
	boxes, err := a.cfg.Runtime.Containers.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return nil, fmt.Errorf("list the sandboxes: %w", err)
	}
	m := map[string]time.Time{}
	for _, c := range list.Containers {
		m[c.Id] = time.Unix(0, c.CreatedAt)
	}
	for _, b := range boxes.Items {
		m[b.Id] = time.Unix(0, b.CreatedAt)
	}
	return m, nil
}
