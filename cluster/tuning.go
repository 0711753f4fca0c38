package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/kloop-dev/kloop/kit"
)

// defaultPodCIDR is the range of pods when PodCIDRs names none.
var defaultPodCIDR = netip.MustParsePrefix("10.88.0.0/16")

// nodeRanges are the ranges from which nodes get their pod ranges; none: they get none.
func (c Config) nodeRanges() (pools []kit.Pool) {
	if !c.NodeCIDRs {
		return nil
	}
	ranges := c.podCIDRs()
	for _, r := range ranges {
		p := kit.Pool{Range: r, Bits: cmp.Or(c.NodeCIDRBits4, 24)}
		if r.Addr().Is6() {
			p.Bits = cmp.Or(c.NodeCIDRBits6, 64)
		}
		if len(ranges) == 1 {
			p.Bits = cmp.Or(c.NodeCIDRBits, p.Bits)
		}
		pools = append(pools, p)
	}
	return pools
}

func (c Config) podCIDRs() []netip.Prefix {
	if len(c.PodCIDRs) == 0 {
		return []netip.Prefix{defaultPodCIDR}
	}
	return c.PodCIDRs
}

// ownPodCIDRs are the ranges that this process's node registers with; none: it waits for its parts.
func (c Config) ownPodCIDRs() []netip.Prefix {
	if c.NodeCIDRs {
		return nil
	}
	return c.podCIDRs()
}

// checkPods finds ranges of pods and of their nodes that can't be meant.
func (c Config) checkPods() error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	for i, p := range c.PodCIDRs {
		v4 := p.Addr().Is4()
		refuse(v4 && (p.Bits() < 8 || p.Bits() > 24), "pod CIDR %s: of IPv4, use a range of /8 to /24", p)
		refuse(i > 1 || i == 1 && v4 == c.PodCIDRs[0].Addr().Is4(), "pod CIDRs: one of IPv4 and one of IPv6 at most")
	}
	refuse(c.NodeCIDRBits != 0 && len(c.PodCIDRs) > 1, "nodes' parts of /%d: with pods of both families say how long those of each are, "+
		"controllers.nodeCIDRMaskSizeIPv4 and …IPv6", c.NodeCIDRBits)
	for _, p := range c.nodeRanges() {
		refuse(p.Bits < p.Range.Bits() || p.Bits > min(p.Range.Bits()+16, p.Range.Addr().BitLen()),
			"nodes' parts of /%d of the pod range %s: use /%d to /%d",
			p.Bits, p.Range, p.Range.Bits(), p.Range.Bits()+16)
	}
	first := DefaultServiceCIDRs()[0]
	if len(c.ServiceCIDRs) > 0 {
		first = c.ServiceCIDRs[0]
	}
	same := func(p netip.Prefix) bool { return p.Addr().Is4() == first.Addr().Is4() }
	refuse(len(c.PodCIDRs) > 0 && !slices.ContainsFunc(c.PodCIDRs, same),
		"pods have no addresses of the family of %s, the first service CIDR: no service could "+
			"lead to them; name ranges of the same families in network.podCIDR and network.serviceCIDRs", first)
	return errors.Join(errs...)
}
