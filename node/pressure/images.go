package pressure

import (
	"cmp"
	"slices"
	"time"

	"github.com/kloop-dev/kloop/internal/coldsort"
)

// The shares of the disk between which unused images are removed, and how long an image is safe after it came.
const (
	ImagesHigh = 85 // percent of the disk in use, from which on images go
	ImagesLow  = 80 // until so little is in use
	ImageAge   = 2 * time.Minute
)

// An Image is one on the node's disk.
type Image struct {
	ID     string
	Bytes  int64
	Kept   bool // a container of any state has it, or it is pinned
	Seen   time.Time
	Active time.Time // when a container had it last; zero: not since the agent started
}

// Unused returns the images that may go, so that at least want bytes become free; the least recently used first. Images that have just
// come, within the last age, are not among them: a container that wants one may be on its way.
func Unused(images []Image, want int64, age time.Duration, now time.Time) (list []Image) {
	candidates := slices.Clone(images)
	coldsort.StableFunc(candidates, func(a, b Image) int {
		return cmp.Or(a.Active.Compare(b.Active), a.Seen.Compare(b.Seen), cmp.Compare(a.ID, b.ID))
	})
	for _, i := range candidates {
		if want <= 0 {
			break
		}
		if i.Kept || now.Sub(i.Seen) < age {
			continue
		}
		list = append(list, i)
		want -= i.Bytes
	}
	return list
}

// Idle returns the images that no container had for longer than age, counted from when the agent first saw them.
func Idle(images []Image, age time.Duration, now time.Time) (list []Image) {
	for _, i := range images {
		if !i.Kept && now.Sub(i.Seen) > age && now.Sub(i.Active) > age {
			list = append(list, i)
		}
	}
	return list
}

// Excess counts the bytes of images that have to go from a disk.
func Excess(disk Reading, high, low int) int64 {
	if disk.Capacity <= 0 || high <= 0 || high >= 100 {
		return 0
	}
	used := disk.Capacity - disk.Available
	if used*100 < disk.Capacity*int64(high) {
		return 0
	}
	return used - disk.Capacity*int64(low)/100
}
