package cluster

import (
	"fmt"
	"time"

	"github.com/kloop-dev/kloop/node/pressure"
)

// Pressure says when a node is short of memory and disk, and what it does about it.
type Pressure struct {
	// Eviction are thresholds as the kubelet's --eviction-hard has them; "": pressure.Default, "none": the node is never short.
	Eviction string

	// EvictionSoft are thresholds that must be crossed for a time, each with its time in EvictionSoftGracePeriod; "": none.
	EvictionSoft            string
	EvictionSoftGracePeriod map[string]string // signal → duration
	// EvictionMinimumReclaim is the amount more that must be left before a threshold is passed: signal → quantity or percentage.
	EvictionMinimumReclaim    map[string]string
	EvictionMaxPodGracePeriod int           // seconds that a pod has to end because of a soft threshold, at most
	EvictionTransition        time.Duration // for how long pressure is reported after the last crossing; 0: 5 minutes

	// ImageGCHigh and ImageGCLow are percents of the disk of images: above the one, images that nobody uses go until the other. 0: 85
	// and 80; 100: none go.
	ImageGCHigh, ImageGCLow int
}

// DefaultPressure is of a node that nobody tuned.
func DefaultPressure() Pressure {
	return Pressure{Eviction: pressure.Default, ImageGCHigh: pressure.ImagesHigh, ImageGCLow: pressure.ImagesLow}
}

// Limits are the thresholds, and the percents of the disk of images, with what nobody set as it is by default; or what can't be meant.
func (p Pressure) Limits() (eviction []pressure.Threshold, imagesHigh, imagesLow int, err error) {
	if p.Eviction == "" {
		p.Eviction = pressure.Default
	}
	if p.ImageGCHigh == 0 {
		p.ImageGCHigh = pressure.ImagesHigh
	}
	if p.ImageGCLow == 0 {
		p.ImageGCLow = min(pressure.ImagesLow, p.ImageGCHigh)
	}
	if p.ImageGCLow < 0 || p.ImageGCHigh > 100 || p.ImageGCLow > p.ImageGCHigh {
		return nil, 0, 0, fmt.Errorf("images go from %d %% of the disk in use until %d %%: use percents, the first not below the second",
			p.ImageGCHigh, p.ImageGCLow)
	}
	eviction, err = pressure.ParseAll(p.Eviction, p.EvictionSoft, p.EvictionSoftGracePeriod, p.EvictionMinimumReclaim)
	return eviction, p.ImageGCHigh, p.ImageGCLow, err
}
