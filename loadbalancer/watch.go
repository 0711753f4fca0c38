package loadbalancer

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// watchLinks tells that interfaces or their addresses changed in this network namespace, until ctx ends.
func watchLinks(ctx context.Context) (<-chan struct{}, error) {
	links, addrs := make(chan netlink.LinkUpdate, 16), make(chan netlink.AddrUpdate, 16)
	if err := netlink.LinkSubscribe(links, ctx.Done()); err != nil {
		return nil, fmt.Errorf("watch the network interfaces: %w", err)
	}
	if err := netlink.AddrSubscribe(addrs, ctx.Done()); err != nil {
		return nil, fmt.Errorf("watch the addresses of network interfaces: %w", err)
	}
	changed := make(chan struct{}, 1)
	go func() {
		for open := true; open; {
			select {
			case _, open = <-links:
			case _, open = <-addrs:
			}
			select {
			case changed <- struct{}{}:
			default: // the one before has not been taken up: it stands for this one too
			}
		}
	}()
	return changed, nil
}

func addrPort(a netip.Addr) netip.AddrPort { return netip.AddrPortFrom(a, beatPort) }
