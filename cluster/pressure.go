package cluster

import (
	"fmt"

	"github.com/kloop-dev/kloop/node"
	"github.com/kloop-dev/kloop/node/pressure"
)

// Pressure says when a node is short of memory and disk, and what it does about it.
type Pressure struct {
	// Eviction are thresholds as the kubelet's --eviction-hard has them; "": pressure.Default, "none": the node is never short.
	Eviction string
	// ImageGCHigh and ImageGCLow are percents of the disk of images: above the one, images that nobody uses go until the other. 0: 85
	// and 80; 100: none go.
	ImageGCHigh, ImageGCLow int
}

// DefaultPressure is of a node that nobody tuned.
func DefaultPressure() Pressure {
	return Pressure{Eviction: pressure.Default, ImageGCHigh: pressure.ImagesHigh, ImageGCLow: pressure.ImagesLow}
}

// into fills in an agent's configuration, or says what can't be meant.
func (p Pressure) into(cfg *node.Config) (err error) {
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
		return fmt.Errorf("images go from %d %% of the disk in use until %d %%: use percents, the first not below the second", p.ImageGCHigh, p.ImageGCLow)
	}
	cfg.Eviction, err = pressure.Parse(p.Eviction)
	cfg.ImageGCHigh, cfg.ImageGCLow = p.ImageGCHigh, p.ImageGCLow
	return err
}
