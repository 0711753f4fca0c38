// Package nodeipam gives every node its part of the cluster's pod addresses.
//
//	reads   Node
//	writes  Node: spec.podCIDR and spec.podCIDRs
//	rule    every node has one range of each family, and no two nodes share an address
//
// Unlike Kubernetes, simulated nodes get none: the addresses of their pods come from the simulation.
package nodeipam

import (
	"context"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// A Pool is a range of pod addresses that is cut into ranges for nodes.
type Pool struct {
	Range netip.Prefix
	Bits  int // length of a node's prefix, at most 16 more than the range's
}

// one is the only key, so that two nodes never get the same range.
const one = "pod-ranges"

// Controller returns the loop: wake on a node that comes or goes.
func Controller(pools []Pool) *loop.Controller[*corev1.Node] {
	var said told
	return &loop.Controller[*corev1.Node]{
		Name:   "node-ipam",
		For:    kinds.Nodes,
		Lone:   one,
		Wake:   []loop.Wake{{Kind: kinds.Nodes, Keys: changed}},
		Writes: []resource.Kind{kinds.Nodes},
		Rest:   10 * time.Millisecond,
		Gone: func(ctx context.Context, c *loop.Ctx, _ loop.Key) (time.Duration, error) {
			return 0, reconcile(ctx, c, pools, &said)
		},
	}
}

func changed(c client.Change, _ resource.Reader, wake func(ns, name string)) {
	if c.New == nil || len(c.New.(*corev1.Node).Spec.PodCIDRs) == 0 {
		wake("", one)
	}
}

func reconcile(ctx context.Context, c *loop.Ctx, pools []Pool, said *told) error {
	given, without := plan(resource.List(c, kinds.Nodes, ""), pools)
	for _, n := range said.news(without) {
		c.Event(kinds.Nodes, n, corev1.EventTypeNormal, "CIDRNotAvailable", "Node %s status is now: CIDRNotAvailable", n.Name)
	}
	if len(without) > 0 {
		c.Waiting("the pod ranges are used up: %d nodes have none, the first is %s; widen network.podCIDR", len(without), without[0].Name)
	}
	_, err := loop.All(len(given), func(i int) error {
		if err := c.Update(ctx, kinds.Nodes, given[i]); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		return nil
	})
	return err
}

// told are the nodes without a range that have an event which says so: one of each, or every node that joins would cost as many as there
// are. One worker has it.
type told map[types.UID]bool

// news are those of the nodes without a range that were not told. Those that have one by now, or are gone, are forgotten.
func (t *told) news(without []*corev1.Node) (list []*corev1.Node) {
	still := told{}
	for _, n := range without {
		if still[n.UID] = true; !(*t)[n.UID] {
			list = append(list, n)
		}
	}
	*t = still
	return list
}

// plan returns the nodes that get ranges, as they will be, and those for which there are none left.
func plan(nodes []*corev1.Node, pools []Pool) (given, without []*corev1.Node) {
	var free []*cursor
	for _, p := range pools {
		free = append(free, &cursor{pool: p, used: used(nodes, p)})
	}
	for _, n := range nodes {
		if len(n.Spec.PodCIDRs) > 0 || n.DeletionTimestamp != nil || core.Simulated(n) {
			continue
		}
		cidrs, ok := take(free)
		if !ok {
			without = append(without, n)
			continue
		}
		next := resource.Clone(n)
		next.Spec.PodCIDR, next.Spec.PodCIDRs = cidrs[0], cidrs
		given = append(given, next)
	}
	return given, without
}

// take returns one range of each pool.
func take(free []*cursor) (cidrs []string, ok bool) {
	for _, c := range free {
		at, ok := c.next()
		if !ok {
			return nil, false
		}
		cidrs = append(cidrs, at.String())
	}
	return cidrs, len(cidrs) > 0
}

// used marks the ranges of the pool that nodes have, whole or in part.
func used(nodes []*corev1.Node, p Pool) map[int]bool {
	set := map[int]bool{}
	for _, n := range nodes {
		for _, text := range n.Spec.PodCIDRs {
			have, err := netip.ParsePrefix(text)
			if err != nil || !have.Overlaps(p.Range) {
				continue
			}
			first := p.index(have.Masked().Addr())
			wider := min(max(0, p.Bits-have.Bits()), p.Bits-p.Range.Bits())
			for i := range 1 << wider {
				set[first+i] = true
			}
		}
	}
	return set
}

// A cursor walks over a pool's ranges.
type cursor struct {
	pool Pool
	used map[int]bool
	at   int
}

func (c *cursor) next() (netip.Prefix, bool) {
	for ; c.at < 1<<(c.pool.Bits-c.pool.Range.Bits()); c.at++ {
		if !c.used[c.at] {
			c.at++
			return c.pool.nth(c.at - 1), true
		}
	}
	return netip.Prefix{}, false
}

// index is the number of the range that holds the address; one before the pool counts as its first.
func (p Pool) index(a netip.Addr) int {
	if a.Less(p.Range.Addr()) {
		return 0
	}
	raw, i := a.AsSlice(), 0
	for bit := p.Range.Bits(); bit < p.Bits; bit++ {
		i = i<<1 | int(raw[bit/8]>>(7-bit%8)&1)
	}
	return i
}

// nth is the range with the number.
func (p Pool) nth(i int) netip.Prefix {
	raw := p.Range.Masked().Addr().AsSlice()
	for bit := p.Bits - 1; bit >= p.Range.Bits(); bit-- {
		raw[bit/8] |= byte(i&1) << (7 - bit%8)
		i >>= 1
	}
	a, _ := netip.AddrFromSlice(raw)
	return netip.PrefixFrom(a, p.Bits)
}
