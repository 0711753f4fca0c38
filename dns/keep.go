package dns

import (
	"context"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/kloop-dev/kloop/notify"
)

// Sockets outlive the process where systemd runs it: a resolver waits for seconds for the answer to a question that met a closed port, so
// questions wait in the sockets until the next process answers them.
const (
	keptAs = "dns"           // the name of the sockets
	hold   = 2 * time.Second // most that questions wait for the cluster to be known
)

// inherit returns the sockets that the process before left, by their address.
func inherit() map[netip.AddrPort]*listener {
	found := map[netip.AddrPort]*listener{}
	at := func(a netip.AddrPort) *listener {
		a = netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
		if found[a] == nil {
			found[a] = &listener{kept: true}
		}
		return found[a]
	}
	for _, f := range notify.Kept(keptAs) {
		if c, err := net.FilePacketConn(f); err == nil {
			if u, ok := c.(*net.UDPConn); ok {
				l := at(u.LocalAddr().(*net.UDPAddr).AddrPort())
				l.udp = append(l.udp, u)
			}
		} else if c, err := net.FileListener(f); err == nil {
			if l, ok := c.(*net.TCPListener); ok {
				at(l.Addr().(*net.TCPAddr).AddrPort()).tcp = l
			}
		}
		_ = f.Close() // the connections have copies
	}
	return found
}

// bequeath leaves the sockets to the next process.
func bequeath(list []*listener) error {
	var conns []syscall.Conn
	for _, l := range list {
		for _, c := range l.udp {
			conns = append(conns, c)
		}
		if c, ok := l.tcp.(syscall.Conn); ok {
			conns = append(conns, c)
		}
	}
	return notify.Keep(keptAs, conns...)
}

// Leave closes the sockets that a process before left: this one serves no names.
func Leave() error {
	was := inherit()
	for _, l := range was {
		l.close()
	}
	if len(was) == 0 {
		return nil
	}
	return bequeath(nil)
}

// settle waits until the cluster is known, for sockets in which questions of before may wait.
func (l *listener) settle(ctx context.Context, synced <-chan struct{}) {
	if !l.kept {
		return
	}
	late := time.NewTimer(hold)
	defer late.Stop()
	select {
	case <-ctx.Done():
	case <-synced:
	case <-late.C:
	}
}
