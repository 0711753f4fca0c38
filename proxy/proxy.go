// Package proxy turns services into rules of the kernel: connections to a cluster IP or node port go to one of the
// service's ready endpoints.
//
//	reads   Services, EndpointSlices
//	writes  the nftables table kloop of the network namespace that it runs in
//	rule    every port of every service leads to its ready endpoints and to nothing else; one without is refused
//
// The loop is as level-triggered as any: it computes all rules from one snapshot, as a pure function, and replaces
// the table in one transaction when they differ from the last.
package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"time"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
)

// Config says whose services to program.
type Config struct {
	Client client.Client
	Node   string // name of this node, for policies that prefer or demand local endpoints
	Log    *slog.Logger

	Services []netip.Prefix // ranges of cluster IPs; none: 10.96.0.0/16
}

// range4 is the IPv4 range of cluster IPs.
func (c Config) range4() netip.Prefix {
	for _, p := range c.Services {
		if p.Addr().Is4() {
			return p.Masked()
		}
	}
	return netip.MustParsePrefix("10.96.0.0/16")
}

// settle is how long the loop waits for more changes before it writes rules: a rollout changes many endpoints at
// once. retry is the pause after the kernel refused.
const (
	settle = 20 * time.Millisecond
	retry  = 5 * time.Second
)

// Run keeps the rules in step until ctx ends, and leaves them: connections go on while the process restarts. ready
// is called when the first rules are in place.
func Run(ctx context.Context, cfg Config, ready func()) error {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if err := prepareKernel(cfg.range4()); err != nil {
		return err
	}
	feed := cfg.Client.Feed(kinds.Services, kinds.EndpointSlices)
	var last []port
	for first := true; ; {
		if _, err := feed.Next(ctx); err != nil {
			return nil
		}
		if !pause(ctx, settle) {
			return nil
		}
		now := ports(cfg.Client.Read(), cfg.Node)
		if !first && reflect.DeepEqual(now, last) {
			continue
		}
		began := time.Now()
		for err := program(now); err != nil; err = program(now) {
			cfg.Log.Error("program the services", "again", retry, "err", err)
			if first {
				return fmt.Errorf("program the services: %w", err)
			}
			if !pause(ctx, retry) {
				return nil
			}
			now = ports(cfg.Client.Read(), cfg.Node)
		}
		forget(last, now)
		cfg.Log.Debug("services programmed", "ports", len(now), "took", time.Since(began))
		last = now
		if first {
			first = false
			ready()
		}
	}
}

// pause waits; false means that ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
