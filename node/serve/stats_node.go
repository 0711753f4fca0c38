package serve

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
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
	swapFree, swapUsed := mem["SwapFree"], mem["SwapTotal"]-min(mem["SwapFree"], mem["SwapTotal"])
	n.Swap = &swapStats{Time: now, Available: &swapFree, Used: &swapUsed}
	n.Memory = &memoryStats{Time: now, AvailableBytes: &free, UsageBytes: &usage, WorkingSetBytes: &used, RSSBytes: &rss,
		PageFaults: counted("pgfault"), MajorPageFaults: counted("pgmajfault")}
	var fs unix.Statfs_t
	if err := unix.Statfs("/", &fs); err == nil {
		n.Fs = diskOf(fs, now)
	}
	return n, nil
}

// counted is one of the kernel's counts of memory; nil: it does not say.
func counted(name string) *uint64 {
	stat, err := os.ReadFile("/proc/vmstat")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(stat)) {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			if n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64); err == nil {
				return &n
			}
		}
	}
	return nil
}

// A rate tells how much CPU time is used in a second, in nanoseconds, by looks at a sum that grows.
type rate struct {
	mu   sync.Mutex
	at   time.Time // of the look that the next is compared with
	sum  uint64
	last *uint64
}

// The next look is compared with one that lies so long back: less is by chance, and more is no longer true.
const (
	soonLook = time.Second
	lateLook = 10 * time.Second
)

// look takes the sum and returns the rate; nil: there has been no other look long enough ago.
func (r *rate) look(now time.Time, sum uint64) *uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	since := now.Sub(r.at)
	if r.at.IsZero() {
		r.at, r.sum = now, sum
	} else if since >= soonLook && sum >= r.sum {
		r.last = new(uint64(float64(sum-r.sum) / since.Seconds()))
		if since >= lateLook {
			r.at, r.sum = now, sum
		}
	}
	return r.last
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
