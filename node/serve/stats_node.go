package serve

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/node/pressure"
)

// ticks is the kernel's unit of CPU time in /proc, per second; it is the same on all Linux.
const ticks = 100

// readNode reads the use of the whole machine.
//
// Unlike Kubernetes, it comes from /proc, which is there whatever the cgroups look like: memory in use is the part
// not available, and counts reclaimable caches as free.
func readNode() (n nodeStats, err error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return n, fmt.Errorf("read the node's CPU time: %w", err)
	}
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return n, fmt.Errorf("read the node's memory: %w", err)
	}
	now := metav1.NewTime(time.Now())
	busy, boot := cpuTimes(string(stat))
	mem := pressure.MemInfo(string(info))
	used := mem["MemTotal"] - min(mem["MemAvailable"], mem["MemTotal"])
	free, rss := mem["MemAvailable"], mem["AnonPages"]
	usage := mem["MemTotal"] - min(mem["MemFree"], mem["MemTotal"])
	n.StartTime = metav1.NewTime(boot)
	n.CPU = &cpuStats{Time: now, UsageCoreNanoSeconds: &busy}
	if total := mem["SwapTotal"]; total > 0 {
		left, used := mem["SwapFree"], total-min(mem["SwapFree"], total)
		n.Swap = &swapStats{Time: now, Available: &left, Used: &used}
	}
	n.Memory = &memoryStats{Time: now, AvailableBytes: &free, UsageBytes: &usage, WorkingSetBytes: &used, RSSBytes: &rss}
	var fs unix.Statfs_t
	if err := unix.Statfs("/", &fs); err == nil {
		n.Fs = diskOf(fs, now)
	}
	return n, nil
}

func diskOf(fs unix.Statfs_t, now metav1.Time) *fsStats {
	size := uint64(fs.Bsize)
	free, all, used := fs.Bavail*size, fs.Blocks*size, (fs.Blocks-fs.Bfree)*size
	inodes, inodesFree, inodesUsed := fs.Files, fs.Ffree, fs.Files-fs.Ffree
	return &fsStats{Time: now, AvailableBytes: &free, CapacityBytes: &all, UsedBytes: &used,
		Inodes: &inodes, InodesFree: &inodesFree, InodesUsed: &inodesUsed}
}

// cpuTimes reads /proc/stat: nanoseconds that all CPUs were busy, and when the machine started.
func cpuTimes(stat string) (busy uint64, boot time.Time) {
	for line := range strings.Lines(stat) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		switch f[0] {
		case "cpu":
			const idle, iowait, guest = 4, 5, 9 // a guest's time is in user's already
			for i := 1; i < min(len(f), guest); i++ {
				if i != idle && i != iowait {
					n, _ := strconv.ParseUint(f[i], 10, 64)
					busy += n * uint64(time.Second/ticks)
				}
			}
		case "btime":
			sec, _ := strconv.ParseInt(f[1], 10, 64)
			boot = time.Unix(sec, 0)
		}
	}
	return busy, boot
}
