// Package podnetwork lets pods out of their node's network, and keeps their addresses on the way to each other.
//
//	reads   Nodes: the ranges of their pods
//	writes  the nftables table kloop-pods of the network namespace that it runs in
//	rule    what a pod of this node sends to an address that is no pod's seems to come from the node (masquerade); what it sends to a pod
//	        of any node keeps its source, as the Kubernetes network model wants, and so do multicasts
//
// Routes between machines are not made here yet: they are the administrator's.
package podnetwork

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// Config says which node this is.
type Config struct {
	Client client.Client // reads the Nodes
	Own    netip.Prefix  // of this node's pods, IPv4
	Log    *slog.Logger
}

// retry is the pause after the kernel refused.
const retry = 5 * time.Second

// Run keeps the rules in step until ctx ends, and leaves them. ready is called when the first are in place.
func Run(ctx context.Context, cfg Config, ready func()) error {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	feed := cfg.Client.Feed(kinds.Nodes)
	var last []netip.Prefix
	for first := true; ; first = false {
		b, err := feed.Next(ctx)
		if err != nil {
			return nil
		}
		now := ranges(b.Read, cfg.Own)
		if !first && slices.Equal(now, last) {
			continue
		}
		for err := program(cfg.Own, now); err != nil; err = program(cfg.Own, now) {
			if first {
				return fmt.Errorf("let pods out of their network: %w", err)
			}
			cfg.Log.Error("let pods out of their network", "again", retry, "err", err)
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(retry):
			}
		}
		last = now
		if first {
			ready()
		}
	}
}

// ranges are the addresses of all nodes' pods, in order, none inside another. It is pure.
func ranges(read resource.Reader, own netip.Prefix) (list []netip.Prefix) {
	all := []netip.Prefix{own.Masked()}
	for obj := range read.Each(kinds.Nodes, "") {
		for _, text := range resource.As[*corev1.Node](obj).Spec.PodCIDRs {
			if p, err := netip.ParsePrefix(text); err == nil && p.Addr().Is4() {
				all = append(all, p.Masked())
			}
		}
	}
	slices.SortFunc(all, netip.Prefix.Compare) // wide ranges stand before narrow ones that begin with the same address
	for _, p := range all {
		if n := len(list); n == 0 || !list[n-1].Overlaps(p) {
			list = append(list, p)
		}
	}
	return list
}
