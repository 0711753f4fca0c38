package serve

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/node/cgroup"
	"github.com/kloop-dev/kloop/node/pressure"
)

// What the summary tells beside what runtimes do.

type swapStats struct {
	Time      metav1.Time `json:"time"`
	Available *uint64     `json:"swapAvailableBytes,omitempty"`
	Used      *uint64     `json:"swapUsageBytes,omitempty"`
}

type runtimeStats struct {
	ImageFs     *fsStats `json:"imageFs,omitempty"`
	ContainerFs *fsStats `json:"containerFs,omitempty"`
}

type limitStats struct {
	Time   metav1.Time `json:"time"`
	MaxPID int64       `json:"maxpid"`
	Procs  int64       `json:"curproc"`
}

// enrich adds to the summary what the kernel and the disk tell.
func (a *api) enrich(ctx context.Context, s *summary) {
	now := metav1.NewTime(time.Now())
	if list, err := netDevices("/proc/net/dev"); err == nil {
		s.Node.Network = networkNow(list, defaultDevice("/proc/net/route"), now)
	}
	s.Node.Runtime, s.Node.Limits, s.Node.System = a.imageDisk(ctx, now), limits(now), []containerStats{ownUse(now)}
	pods := map[string]*corev1.Pod{}
	for _, p := range a.cfg.Pods() {
		pods[string(p.UID)] = p
	}
	for i := range s.Pods {
		if spec := pods[s.Pods[i].PodRef.UID]; spec != nil {
			a.enrichPod(&s.Pods[i], spec, s.Node.Fs, now)
		}
	}
}

// enrichPod adds logs and swap of a pod's containers, and the sum of what it has on disk. disk is that which holds it all.
func (a *api) enrichPod(p *podStats, spec *corev1.Pod, disk *fsStats, now metav1.Time) {
	var below map[string]cgroup.Use
	if a.cfg.Groups != nil {
		var own cgroup.Use
		own, below = a.cfg.Groups(spec)
		p.Swap = swapOf(own, now)
	}
	sum, inodes := uint64(0), uint64(0)
	for i := range p.Containers {
		c := &p.Containers[i]
		_, id := imageOf(spec, c.Name)
		c.Swap = swapOf(below[id], now)
		if a.cfg.Logs != nil {
			size, files := pressure.Walk(filepath.Join(a.cfg.Logs(spec), c.Name))
			c.Logs = onDisk(disk, uint64(max(size, 0)), uint64(max(files, 0)), now)
		}
		if c.Rootfs != nil && disk != nil {
			c.Rootfs.AvailableBytes, c.Rootfs.CapacityBytes, c.Rootfs.Inodes, c.Rootfs.InodesFree = disk.AvailableBytes, disk.CapacityBytes,
				disk.Inodes, disk.InodesFree
		}
		for _, f := range []*fsStats{c.Logs, c.Rootfs} {
			sum, inodes = sum+of(f, func(f *fsStats) *uint64 { return f.UsedBytes }), inodes+of(f, func(f *fsStats) *uint64 { return f.InodesUsed })
		}
	}
	for i := range p.Volumes {
		if v := &p.Volumes[i]; v.Claim == nil {
			sum, inodes = sum+*v.UsedBytes, inodes+*v.InodesUsed
		}
	}
	p.Ephemeral = onDisk(disk, sum, inodes, now)
}

func of(f *fsStats, part func(*fsStats) *uint64) uint64 {
	if f == nil || part(f) == nil {
		return 0
	}
	return *part(f)
}

// onDisk joins a use of a disk with the disk's size.
func onDisk(disk *fsStats, used, inodes uint64, now metav1.Time) *fsStats {
	f := &fsStats{Time: now, UsedBytes: &used, InodesUsed: &inodes}
	if disk != nil {
		f.AvailableBytes, f.CapacityBytes, f.Inodes, f.InodesFree = disk.AvailableBytes, disk.CapacityBytes, disk.Inodes, disk.InodesFree
	}
	return f
}

func swapOf(u cgroup.Use, now metav1.Time) *swapStats {
	n, ok := u.Counts["swap"]
	if !ok {
		return nil
	}
	return &swapStats{Time: now, Used: &n}
}

// imageDisk tells of the room that images take, and the disk that they lie on.
func (a *api) imageDisk(ctx context.Context, now metav1.Time) *runtimeStats {
	if a.cfg.Runtime.Images == nil {
		return nil
	}
	res, err := a.cfg.Runtime.Images.ImageFsInfo(ctx, &cri.ImageFsInfoRequest{})
	if err != nil || len(res.ImageFilesystems) == 0 {
		return nil
	}
	of := func(u *cri.FilesystemUsage) *fsStats {
		var fs unix.Statfs_t
		f := &fsStats{Time: now}
		if unix.Statfs(u.GetFsId().GetMountpoint(), &fs) == nil {
			f = diskOf(fs, now)
		}
		f.UsedBytes, f.InodesUsed = value(u.UsedBytes), value(u.InodesUsed)
		return f
	}
	s := &runtimeStats{ImageFs: of(res.ImageFilesystems[0])}
	if len(res.ContainerFilesystems) > 0 {
		s.ContainerFs = of(res.ContainerFilesystems[0])
	} else {
		s.ContainerFs = s.ImageFs
	}
	return s
}

// limits are the numbers of processes: how many there are and can be. nil: the kernel does not say.
func limits(now metav1.Time) *limitStats {
	most, err := os.ReadFile("/proc/sys/kernel/pid_max")
	load, lerr := os.ReadFile("/proc/loadavg")
	if err != nil || lerr != nil {
		return nil
	}
	l := &limitStats{Time: now}
	l.MaxPID, _ = strconv.ParseInt(strings.TrimSpace(string(most)), 10, 64)
	if f := strings.Fields(string(load)); len(f) > 3 {
		_, all, _ := strings.Cut(f[3], "/")
		l.Procs, _ = strconv.ParseInt(all, 10, 64)
	}
	return l
}

// ownUse tells of the process that the agent runs in, which may be the whole cluster's.
func ownUse(now metav1.Time) containerStats {
	c := containerStats{Name: "kubelet", StartTime: now}
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) == nil {
		spent := uint64(r.Utime.Nano() + r.Stime.Nano())
		c.CPU = &cpuStats{Time: now, UsageCoreNanoSeconds: &spent}
	}
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		if f := strings.Fields(string(text)); len(f) > 1 {
			pages, _ := strconv.ParseUint(f[1], 10, 64)
			rss := pages * uint64(os.Getpagesize())
			c.Memory = &memoryStats{Time: now, WorkingSetBytes: &rss, UsageBytes: &rss, RSSBytes: &rss}
		}
	}
	return c
}

// A netDevice has the kernel's counts for a network device: bytes, packets, errors and drops, received and sent.
type netDevice struct {
	name   string
	rx, tx [4]uint64
}

// netDevices reads /proc/net/dev, without the loopback and the ends of pods' links.
func netDevices(path string) (list []netDevice, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read what went through the network: %w", err)
	}
	for line := range bytes.Lines(text) {
		name, counts, ok := strings.Cut(string(line), ":")
		name = strings.TrimSpace(name)
		f := strings.Fields(counts)
		if !ok || len(f) < 12 || name == "lo" || strings.HasPrefix(name, "veth") {
			continue
		}
		d := netDevice{name: name}
		for i := range d.rx {
			d.rx[i], _ = strconv.ParseUint(f[i], 10, 64)
			d.tx[i], _ = strconv.ParseUint(f[i+8], 10, 64)
		}
		list = append(list, d)
	}
	return list, nil
}

// defaultDevice is the device of the default route in a table like /proc/net/route; "": there is none.
func defaultDevice(path string) string {
	text, _ := os.ReadFile(path)
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[1] == "00000000" {
			return f[0]
		}
	}
	return ""
}

// networkNow is the node's network: all devices, and first the one that leads out.
func networkNow(list []netDevice, first string, now metav1.Time) *networkStats {
	s := &networkStats{Time: now}
	for _, d := range list {
		i := interfaceStats{Name: d.name, RxBytes: &d.rx[0], RxErrors: &d.rx[2], TxBytes: &d.tx[0], TxErrors: &d.tx[2]}
		if s.Interfaces = append(s.Interfaces, i); d.name == first {
			s.interfaceStats = i
		}
	}
	return s
}
