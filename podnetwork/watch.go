package podnetwork

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// afterError passes before a socket is read again that could not be read.
const afterError = time.Second

// watch returns a channel that gets a value when links, addresses, routes or the neighbours on the tunnel changed, by anybody: one for many
// when nobody reads. It ends with ctx. What comes and goes with every pod is left out.
func watch(ctx context.Context, k *kernel) (<-chan struct{}, error) {
	s, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV4_ROUTE,
		unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV6_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("watch the kernel's links and routes: %w", err)
	}
	touched := make(chan struct{}, 1)
	context.AfterFunc(ctx, s.Close)
	go func() {
		for ctx.Err() == nil {
			list, from, err := s.Receive()
			// ENOBUFS: more came than the socket holds. What can't be read may be a change, too.
			if err != nil && !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.EINTR) {
				select {
				case <-ctx.Done():
					return
				case <-time.After(afterError):
				}
			}
			matters := err != nil
			for i := range list {
				matters = matters || from.Pid == 0 && k.matters(list[i])
			}
			if !matters {
				continue
			}
			select {
			case touched <- struct{}{}:
			default:
			}
		}
	}()
	return touched, nil
}

// matters says that a change may concern the pod network.
func (k *kernel) matters(m syscall.NetlinkMessage) bool {
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		l, err := netlink.LinkDeserialize((*unix.NlMsghdr)(&m.Header), m.Data)
		return err != nil || l.Attrs().MasterIndex == 0 && !strings.HasPrefix(l.Attrs().Name, "veth")
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		return true
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		r := nl.DeserializeRtMsg(m.Data)
		return r.Table != unix.RT_TABLE_LOCAL && !(r.Family == unix.AF_INET6 && r.Protocol == unix.RTPROT_KERNEL)
	case unix.RTM_DELNEIGH:
		const indexAt = 4 // struct ndmsg: family, padding, index
		return len(m.Data) >= indexAt+4 && int32(nl.NativeEndian().Uint32(m.Data[indexAt:])) == k.tunnel.Load() && k.tunnel.Load() != 0
	}
	return false
}
