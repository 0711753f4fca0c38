package loadbalancer

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
)

// deafPause passes before the kernel is listened to again that could not be heard: it drops who is too slow (ENOBUFS).
const deafPause = time.Second

// ears hear of interfaces and addresses. Either channel is closed when nothing is heard any more.
type ears struct {
	links chan netlink.LinkUpdate
	addrs chan netlink.AddrUpdate
	done  chan struct{} // closed by who listens
}

// newEars listens to the kernel of this network namespace.
func newEars() (ears, error) {
	e := ears{make(chan netlink.LinkUpdate, 16), make(chan netlink.AddrUpdate, 16), make(chan struct{})}
	if err := netlink.LinkSubscribe(e.links, e.done); err != nil {
		return e, fmt.Errorf("watch the network interfaces: %w", err)
	}
	if err := netlink.AddrSubscribe(e.addrs, e.done); err != nil {
		close(e.done)
		go e.drain(e.links, nil)
		return e, fmt.Errorf("watch the addresses of network interfaces: %w", err)
	}
	return e, nil
}

// drain takes what is still said, so that who says it ends.
func (e ears) drain(links chan netlink.LinkUpdate, addrs chan netlink.AddrUpdate) {
	for range links {
	}
	if addrs != nil {
		for range addrs {
		}
	}
}

// listen calls heard for each change, until ctx ends or nothing is heard any more.
func (e ears) listen(ctx context.Context, heard func()) {
	defer func() {
		close(e.done)
		go e.drain(e.links, e.addrs)
	}()
	for open := true; open; heard() {
		select {
		case _, open = <-e.links:
		case _, open = <-e.addrs:
		case <-ctx.Done():
			return
		}
	}
}

// watchLinks tells that interfaces or their addresses changed in this network namespace. The channel is closed when nothing is heard any
// more, or ctx ends.
func watchLinks(ctx context.Context) (<-chan struct{}, error) {
	e, err := newEars()
	if err != nil {
		return nil, err
	}
	return e.tell(ctx), nil
}

func (e ears) tell(ctx context.Context) <-chan struct{} {
	changed := make(chan struct{}, 1)
	go func() {
		defer close(changed)
		e.listen(ctx, func() {
			select {
			case changed <- struct{}{}:
			default: // the one before has not been taken up: it stands for this one too
			}
		})
	}()
	return changed
}

// listenAgain listens to the kernel again after a pause, when nothing is heard any more: what was missed is seen by looking.
func (a *announcer) listenAgain(ctx context.Context) {
	if a.heard = !a.heard; a.heard {
		c, err := a.watch(ctx)
		if err == nil {
			a.changed = c
			return
		}
		a.heard = false
		a.cfg.Log.Warn("listen to the kernel", "again", deafPause, "err", err)
	}
	c := make(chan struct{})
	time.AfterFunc(deafPause, func() { close(c) })
	a.changed = c
}

func addrPort(a netip.Addr) netip.AddrPort { return netip.AddrPortFrom(a, beatPort) }
