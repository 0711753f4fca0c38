package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A place is a network namespace beside the test's own, joined to it by a cable.
type place struct {
	t  testing.TB
	do chan func()
}

// newPlace makes a namespace that has the address and is reached from here at near, as a pod or a machine outside is.
func newPlace(t testing.TB, name string, near, far netip.Addr) *place {
	t.Helper()
	p := &place{t: t, do: make(chan func())}
	fd := make(chan int)
	go func() {
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			panic(err)
		}
		f, err := unix.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			panic(err)
		}
		fd <- f
		for do := range p.do {
			do()
		}
	}()
	ns := <-fd
	t.Cleanup(func() { unix.Close(ns); close(p.do) })
	here, there := "v-"+name, "eth0"
	cable := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: here}, PeerName: there, PeerNamespace: netlink.NsFd(ns)}
	must(t, netlink.LinkAdd(cable))
	must(t, join(here, near, far, false))
	p.run(func() error {
		lo, err := netlink.LinkByName("lo")
		return errors.Join(err, netlink.LinkSetUp(lo), join(there, far, near, true))
	})
	return p
}

// join gives a cable's end its address and a route to the other end, and by it to everything.
func join(name string, own, other netip.Addr, everything bool) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	whole := func(a netip.Addr) *net.IPNet {
		return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
	}
	addr := &netlink.Addr{IPNet: whole(own), Flags: unix.IFA_F_NODAD}
	if err := errors.Join(netlink.LinkSetUp(l), netlink.AddrReplace(l, addr),
		netlink.RouteReplace(&netlink.Route{LinkIndex: l.Attrs().Index, Dst: whole(other), Scope: netlink.SCOPE_LINK})); err != nil {
		return err
	}
	if !everything {
		return nil
	}
	return netlink.RouteReplace(&netlink.Route{LinkIndex: l.Attrs().Index, Gw: other.AsSlice(), Flags: int(netlink.FLAG_ONLINK),
		Dst: &net.IPNet{IP: make(net.IP, len(own.AsSlice())), Mask: net.CIDRMask(0, own.BitLen())}})
}

// run does something there.
func (p *place) run(f func() error) {
	p.t.Helper()
	err := make(chan error)
	p.do <- func() { err <- f() }
	must(p.t, <-err)
}

// ask connects from there.
func (p *place) ask(at string, patience time.Duration) (who, client string, err error) {
	done := make(chan struct{})
	p.do <- func() {
		defer close(done)
		who, client, err = askWithin(patience, at)
	}
	<-done
	return who, client, err
}

// askWithin dials on this thread: the runtime would make the socket here, but wait elsewhere, which is fine.
func askWithin(patience time.Duration, at string) (who, client string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := (&net.Dialer{FallbackDelay: -1}).DialContext(ctx, "tcp", at)
	if err != nil {
		return "", "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, err = fmt.Fscan(c, &who, &client)
	return who, client, err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// outcome names how an attempt ended: who answered and whom it saw, or how it failed.
func outcome(who, client string, err error) string {
	var net interface{ Timeout() bool }
	switch {
	case err == nil:
		return strings.TrimSuffix(who, ":8080") + " saw " + client
	case errors.Is(err, unix.ECONNREFUSED):
		return "refused"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &net) && net.Timeout():
		return "dropped"
	}
	return err.Error()
}
