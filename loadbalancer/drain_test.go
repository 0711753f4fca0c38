package loadbalancer

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/kloop-dev/kloop/internal/eventually"
)

// serves has a node take connections to an address, in place of a service proxy; its kernel answers no ARP for it.
func (l *lan) serves(m *member, addr string) {
	l.t.Helper()
	var ln net.Listener
	m.run(func() (err error) {
		if err = os.WriteFile("/proc/sys/net/ipv4/conf/all/arp_ignore", []byte("1"), 0o644); err != nil {
			return err
		}
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		a, err := netlink.ParseAddr(addr + "/32")
		if err = errors.Join(err, netlink.LinkSetUp(lo), netlink.AddrAdd(lo, a)); err != nil {
			return err
		}
		ln, err = net.Listen("tcp", addr+":80")
		return err
	})
	l.t.Cleanup(func() { ln.Close() })
	go func() {
		for c, err := ln.Accept(); err == nil; c, err = ln.Accept() {
			_, _ = c.Write([]byte(m.name))
			c.Close()
		}
	}()
}

// TestDrain: an address moves in order, from node to node and back, while a client connects again and again. No connection fails but
// the one that is being opened at the very moment: its first packets go to one node, the next to the other.
func TestDrain(t *testing.T) {
	l := newLAN(t, 2)
	n1, n2 := l.nodes[0], l.nodes[1]
	for _, m := range l.nodes {
		l.serves(m, vip)
	}
	r := l.record(vip)
	l.lease(vip, n1, n2)
	l.answers(r, n1)
	var met [3]atomic.Int64 // of each node, and connections that were reset
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			l.connect(&met)
		}
	}()
	defer func() { close(stop); <-stopped }()
	reached := func(i int) {
		t.Helper()
		before := met[i].Load()
		eventually.True(t, l.nodes[i].name+" is reached", func() bool { return met[i].Load() > before+20 })
	}
	reached(0)
	l.lease(vip, n2) // the node is being drained
	l.answers(r, n2)
	reached(1)
	l.lease(vip, n1, n2) // it is back: the address stays where it is
	n2.stop()            // and now the other's agent is stopped in order
	<-n2.ended
	l.answers(r, n1)
	reached(0)
	const moves = 2
	if n := met[2].Load(); n > moves {
		t.Errorf("%d connections were reset in %d moves", n, moves)
	}
	t.Logf("%d connections, %d of them reset", met[0].Load()+met[1].Load()+met[2].Load(), met[2].Load())
}

// connect opens one connection from the asker, and counts whom it met.
func (l *lan) connect(met *[3]atomic.Int64) {
	name := make([]byte, 2)
	done := make(chan error)
	l.asker.do <- func() {
		c, err := net.DialTimeout("tcp", vip+":80", eventually.Patience)
		if err == nil {
			_, err = c.Read(name)
			c.Close()
		}
		done <- err
	}
	switch err := <-done; {
	case errors.Is(err, syscall.ECONNRESET):
		met[2].Add(1)
	case err != nil || name[0] != 'n':
		l.t.Errorf("a connection to %q: %v", name, err)
	default:
		met[name[1]-'1'].Add(1)
	}
}
