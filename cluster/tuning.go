package cluster

import (
	"fmt"
	"net/netip"
	"os"

	"github.com/kloop-dev/kloop/controllers/nodeipam"
	"github.com/kloop-dev/kloop/scheduler"
)

// profiles are whose pods the scheduler takes, and how.
func (c Config) profiles() ([]scheduler.Profile, error) {
	if c.SchedulerConfig == "" {
		return nil, nil
	}
	data, err := os.ReadFile(c.SchedulerConfig)
	if err != nil {
		return nil, fmt.Errorf("read the scheduler's configuration: %w", err)
	}
	return scheduler.ReadConfig(data)
}

// defaultPodCIDR is the range of pods when PodCIDR names no other.
var defaultPodCIDR = netip.MustParsePrefix("10.88.0.0/16")

// nodeRanges is what nodes get their parts of; none: they get none.
func (c Config) nodeRanges() []nodeipam.Pool {
	if !c.NodeCIDRs {
		return nil
	}
	p := nodeipam.Pool{Range: c.PodCIDR, Bits: c.NodeCIDRBits}
	if !p.Range.IsValid() {
		p.Range = defaultPodCIDR
	}
	switch {
	case p.Bits != 0:
	case p.Range.Addr().Is4():
		p.Bits = 24
	default:
		p.Bits = 64
	}
	return []nodeipam.Pool{p}
}

// ownPodCIDR is the range that this process's node registers with; zero: it waits for its part.
func (c Config) ownPodCIDR() netip.Prefix {
	switch {
	case c.NodeCIDRs:
		return netip.Prefix{}
	case c.PodCIDR.IsValid():
		return c.PodCIDR
	}
	return defaultPodCIDR
}
